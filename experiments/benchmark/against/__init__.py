"""Two versions of Settle, timed in turns: which is faster?"""
