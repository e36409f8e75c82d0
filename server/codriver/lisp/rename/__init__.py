"""Renaming of symbols and keywords in the code of one text, by lexical scope."""

from codriver.lisp.rename.ns_form import namespace_of, ns_form
from codriver.lisp.rename.symbol_rename import find_names

__all__ = ["find_names", "namespace_of", "ns_form"]
