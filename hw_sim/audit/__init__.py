"""Which words of memory does each update read and write?"""
