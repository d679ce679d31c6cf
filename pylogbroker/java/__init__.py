"""Texts as Java reads them: numbers, lists and regular expressions that Kafka defines as those of Java.

Python's functions of the same purpose read other texts. `int` takes underscores, `strip` the no-break space. `\\w` of
`re` matches letters of all scripts.
"""
