"""Formulas as MathML, which browsers draw themselves: the site needs no script and no network.

This reads the part of TeX that the documents use; anything else stops the build.
"""
# ruff: noqa: RUF001
# Signs of formulas look like letters.

import re
from html import escape

TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\s+|.", re.DOTALL)
LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε",
    "zeta": "ζ", "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν",
    "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω",
    "Delta": "Δ", "Phi": "Φ", "Pi": "Π", "infty": "∞", "partial": "∂", "nabla": "∇", "dots": "…",
    "square": "□",
}  # fmt: skip
SIGNS = {
    "le": "≤", "ge": "≥", "ll": "≪", "gg": "≫", "ne": "≠", "approx": "≈", "sim": "∼", "in": "∈",
    "succeq": "⪰", "cdot": "⋅", "times": "×", "pm": "±", "mp": "∓", "ast": "∗", "circ": "∘",
    "oplus": "⊕", "leftarrow": "←", "to": "→", "mapsto": "↦", "Longrightarrow": "⟹",
    "sum": "∑", "int": "∫",
}  # fmt: skip
FENCES = {
    "lvert": "|", "rvert": "|", "lVert": "‖", "rVert": "‖", "lfloor": "⌊", "rfloor": "⌋",
    "lceil": "⌈", "rceil": "⌉", "lbrace": "{", "rbrace": "}", "{": "{", "}": "}", "|": "‖",
}  # fmt: skip
WORDS = ("min", "max", "ln", "log", "exp", "tanh", "cos", "arg")
BELOW = ("min", "max", "sum")
"""What has its limits below and above where a formula has lines of its own."""
ACCENTS = {"hat": "^", "bar": "¯", "dot": "˙", "ddot": "¨"}
SPACES = {"quad": "1em", "qquad": "2em", ",": "0.17em", ";": "0.28em", ":": "0.22em", " ": "0.3em"}
SIZES = ("big", "Big", "bigl", "bigr", "bigg", "Bigl", "Bigr")
VARIANTS = {"mathcal": 0x1D49C, "mathbf": 0x1D400}
"""Where the capital letters of an alphabet begin."""
BOLD_ZERO = 0x1D7CE
HOLES = {"ℬ": 0x1D49D, "ℰ": 0x1D4A0, "ℱ": 0x1D4A1, "ℋ": 0x1D4A3, "ℐ": 0x1D4A4, "ℒ": 0x1D4A7}
"""Letters of the script alphabet that stand elsewhere."""


PRIME = '<mo lspace="0" rspace="0">′</mo>'


class FormulaError(ValueError):
    """A formula that cannot be read, as one sentence."""


def mathml(tex: str, *, block: bool) -> str:
    """Return a formula as MathML, with its source for those who copy it."""
    reader = _Reader(tex, block)
    body = reader.row(end=None)
    shown = ' display="block"' if block else ""
    return (
        f'<math xmlns="http://www.w3.org/1998/Math/MathML"{shown}><semantics>{body}'
        f'<annotation encoding="application/x-tex">{escape(tex.strip())}</annotation>'
        "</semantics></math>"
    )


def _still(sign: str) -> str:
    """Return a bracket as tall as a letter, with nothing beside it."""
    return f'<mo stretchy="false" lspace="0" rspace="0">{sign}</mo>'


def _function(name: str) -> str:
    """Return the name of a function, with a thin space to its argument."""
    return f'<mo lspace="0.17em" rspace="0.17em" movablelimits="false">{escape(name)}</mo>'


class _Reader:
    """The tokens of a formula, read from left to right."""

    def __init__(self, tex: str, block: bool) -> None:
        self._tex, self._block = tex, block
        self._tokens = [token for token in TOKEN.findall(tex) if not token.isspace()]
        # Words in braces keep their spaces: they are read from the source.
        self._words = iter(re.findall(r"\\(?:text|operatorname|mathrm)\s*\{([^{}]*)\}", tex))
        self._place = 0

    def row(self, end: str | None) -> str:
        """Return all up to a token, which is read too."""
        parts = []
        while True:
            if self._place == len(self._tokens):
                if end is None:
                    break
                raise FormulaError(f"the formula {self._tex!r} ends before {end!r}.")
            if self._tokens[self._place] == end:
                self._place += 1
                break
            parts.append(self._scripted())
        return f"<mrow>{''.join(parts)}</mrow>"

    def _scripted(self) -> str:
        """Return what comes next with its index and exponent."""
        token = self._peek()
        base = self._number() if token.isdigit() else self._atom()
        lower = upper = primes = ""
        while self._peek() in ("_", "^", "'"):
            sign = self._next()
            if sign == "_":
                lower = self._atom()
            elif sign == "^":
                upper = self._atom()
            else:
                primes += PRIME
        if primes:  # it is raised by itself
            base = f"<mrow>{base}{primes}</mrow>"
        under = token.removeprefix("\\") in BELOW and self._block
        names = ("under", "over") if under else ("sub", "sup")
        kind = "".join(n for n, part in zip(names, (lower, upper), strict=True) if part)
        return f"<m{kind}>{base}{lower}{upper}</m{kind}>" if kind else base

    def _number(self) -> str:
        """Return all digits of a number."""
        text = self._next()
        while (more := "".join(self._tokens[self._place : self._place + 2]))[:1].isdigit() or (
            more[:1] == "." and more[1:].isdigit()
        ):
            text += self._next()
        return f"<mn>{text}</mn>"

    def _atom(self) -> str:
        """Return the next letter, digit, sign, group or command."""
        token = self._next()
        if token == "{":
            return self.row("}")
        if token.startswith("\\"):
            return self._command(token[1:])
        if token in "_^":
            self._place -= 1
            return "<mrow></mrow>"
        if token.isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{escape(token)}</mi>"
        if token in "()[]|":
            return _still(token)
        return f"<mo>{'−' if token == '-' else escape(token)}</mo>"

    def _command(self, name: str) -> str:
        if name in LETTERS:
            return f"<mi>{LETTERS[name]}</mi>"
        if name == "prime":
            return PRIME
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"/>'
        if name in SIGNS:
            return f"<mo>{SIGNS[name]}</mo>"
        if name in FENCES:
            return _still(FENCES[name])
        if name in WORDS:
            return _function(name)
        if name in ("frac", "tfrac", "dfrac"):
            return f"<mfrac>{self._atom()}{self._atom()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self._atom()}</msqrt>"
        if name in ACCENTS:
            return f'<mover accent="true">{self._atom()}<mo>{ACCENTS[name]}</mo></mover>'
        if name in ("text", "operatorname", "mathrm"):
            return self._upright(name)
        if name in VARIANTS:
            return self._variant(name)
        if name == "left":
            first, inside, last = self._fence(), self.row("\\right"), self._fence()
            return f"<mrow>{first}{inside}{last}</mrow>"
        if name in SIZES:
            return self._fence()
        raise FormulaError(f"the formula {self._tex!r} has \\{name}, which is not known here.")

    def _upright(self, name: str) -> str:
        """Return words as they stand."""
        if self._peek() != "{":
            return f'<mi mathvariant="normal">{escape(self._next())}</mi>'
        words = next(self._words)
        self._next()
        self.row("}")
        if name == "operatorname":
            return _function(words)
        return f"<mtext>{escape(words)}</mtext>"

    def _variant(self, name: str) -> str:
        """Return a capital letter of another alphabet, or a bold digit."""
        grouped = self._peek() == "{"
        if grouped:
            self._next()
        letter = self._next()
        if (grouped and self._next() != "}") or not (letter.isdigit() or "A" <= letter <= "Z"):
            raise FormulaError(f"the formula {self._tex!r} has \\{name} of more than a capital.")
        if letter.isdigit():
            return f"<mn>{chr(BOLD_ZERO + int(letter))}</mn>"
        code = VARIANTS[name] + ord(letter) - ord("A")
        moved = {place: sign for sign, place in HOLES.items()}
        return f"<mi>{moved.get(code, chr(code))}</mi>"

    def _fence(self) -> str:
        """Return a bracket that is as tall as what it holds; a point is none."""
        token = self._next()
        sign = FENCES.get(token.removeprefix("\\"), token)
        return "" if sign == "." else f'<mo stretchy="true">{sign}</mo>'

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        if self._place == len(self._tokens):
            raise FormulaError(f"the formula {self._tex!r} ends too early.")
        self._place += 1
        return self._tokens[self._place - 1]
