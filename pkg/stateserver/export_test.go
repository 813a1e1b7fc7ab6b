package stateserver

// Memory is the storage of tests, for those of other packages' suites.
type Memory = memory
