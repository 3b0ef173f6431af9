"""The energy transformer, trained by EqProp on sequences it has never seen."""
