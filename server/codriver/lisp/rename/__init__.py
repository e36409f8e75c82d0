"""Renaming of symbols and keywords in the code of one text, by lexical scope."""

from codriver.lisp.rename.binding_forms import namespace_of, ns_form
from codriver.lisp.rename.cross_file_references import Renamed, find_references
from codriver.lisp.rename.symbol_rename import find_names

__all__ = ["Renamed", "find_names", "find_references", "namespace_of", "ns_form"]
