// Package boltfile reads files of bbolt without trusting them. bbolt assumes that a file is
// correct: a wrong number makes it panic, read outside of the file or follow a cycle of pages
// forever. A file is therefore checked here first, and passed to bbolt only if all reachable
// pages are valid. Unreachable pages do not matter: a write that was interrupted by a power
// failure has changed only those.
//
//	newest, err := boltfile.ReadMetas(file)
//	if err != nil {
//		return err
//	}
//	pages := boltfile.NewPages(file, newest.PageSize, newest.End)
//	err = pages.Tree(newest.Root, func(e boltfile.Element) error { return nil })
package boltfile
