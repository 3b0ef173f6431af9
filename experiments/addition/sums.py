"""Ten-digit sums as rows of tokens: what a token is, how long a row is, which sums are tested."""

DIGITS = 10
SUM_DIGITS = DIGITS + 1
PLUS, EQUALS, PAD, EOS = 10, 11, 12, 13
VOCABULARY = 14
PROMPT = 2 * DIGITS + 2
TARGETS = SUM_DIGITS + 1
POSITIONS = PROMPT + SUM_DIGITS
LIMIT = 10**DIGITS
"""Operands are below this."""

VALIDATION_SIZE, TEST_SIZE = 5_000, 10_000
TEST_SEEDS = (41, 100, 200, 300, 400, 500, 999, 1234, 7777, 31415)
"""Their test parts are the published benchmark of 100,000 sums."""
