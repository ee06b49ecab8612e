// Package archtest holds the module to its plan: who may import whom, no
// package-level mutable state, every exported name documented, no internal type
// in a public signature, no overlong function.
//
// It reads source text only and judges it by the rules it is given. It
// deliberately does not compile or list packages, so a build tag hides nothing
// from it and it needs no tool beside the standard library. Test files are
// outside the plan and not looked at. What source text cannot show, such as a
// table that is changed through a function it was passed to, goes unseen.
//
//	findings, err := archtest.Check(os.DirFS("../.."), archtest.Plan())
package archtest
