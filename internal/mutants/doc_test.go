// Package mutants judges the tests of other packages: each patch in testdata breaks a
// promise of the code, and the tests that it names have to fail with it.
//
// A patch is a unified diff of one file after a header: a sentence that says what is
// broken, and a line "Test:" with the packages and the -run pattern for go test. A
// patch that no longer applies has to be written again for the new code:
//
//	go test -tags mutants ./internal/mutants -run Mutants/matching
//	go test -tags mutants ./internal/mutants -run Mutants -sample 40 -seed 7
package mutants
