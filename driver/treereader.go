package driver

import "context"

// TreeReader has the methods that all drivers which read a tree have alike. Such a driver
// embeds it.
type TreeReader struct {
	name     string
	tree     Tree
	discover func(ctx context.Context, view *View) (Report, error)
}

var _ TreeDriver = TreeReader{}

// NewTreeReader returns the methods of a driver by its name, the tree that it was made for,
// and its discovery on a view of that tree.
func NewTreeReader(name string, tree Tree, discover func(ctx context.Context, view *View) (Report, error)) TreeReader {
	return TreeReader{name, tree, discover}
}

// Name implements Driver.
func (r TreeReader) Name() string { return r.name }

// Tree implements TreeDriver.
func (r TreeReader) Tree() Tree { return r.tree }

// Discover reports the devices present. The error is that of ctx.
func (r TreeReader) Discover(ctx context.Context) (Report, error) {
	return r.discover(ctx, NewView(r.tree))
}

// DiscoverIn implements TreeDriver.
func (r TreeReader) DiscoverIn(ctx context.Context, view *View) (Report, error) {
	return r.discover(ctx, view)
}
