// Package boltfile reads files of bbolt without trusting them. bbolt takes all that is in a file for right: a wrong number makes it
// panic, read outside of the file or follow a page to itself for ever. A file is therefore read here first, and given to bbolt once
// all pages that it can reach are in order. Pages that it does not reach do not matter; a write that the end of the machine
// interrupted has changed only those.
//
//	newest, err := boltfile.ReadMetas(file)
//	if err != nil {
//		return err
//	}
//	pages := boltfile.NewPages(file, newest.PageSize, newest.End)
//	err = pages.Tree(newest.Root, func(e boltfile.Element) error { return nil })
package boltfile
