package fakecyborg

import "context"

// shape is how devices stand in Placement. Calls for one host follow each other.
type shape interface {
	// add makes a deployable known; the answer tells whether something may be
	// there that this call made.
	add(ctx context.Context, want providerWant) (made bool, err error)
	// change tells what is different about a deployable that is known.
	change(ctx context.Context, c partChange) error
	// remove takes a deployable away; one that is not there is no error.
	remove(ctx context.Context, want providerWant) error
	// reserve writes the inventory of a deployable for its reserved amount.
	reserve(ctx context.Context, want providerWant) error
}

// shapeOf chooses the shape of a mode.
func shapeOf(cfg Config, client *placementClient) shape {
	switch cfg.PlacementMode {
	case ModeFlat:
		return &flatShape{client: client, hosts: make(map[string]*flatHost)}
	case ModeNested:
		return &nestedShape{client: client, regions: make(map[string]providerWant), traits: make(map[string][]string),
			memory: make(map[string]map[string]inventory)}
	}
	return treeShape{client}
}

// treeShape is one provider for each deployable, below that of the host.
type treeShape struct{ *placementClient }

// reserve replaces the inventory at the version in which all of it may be
// reserved.
func (t treeShape) reserve(ctx context.Context, want providerWant) error {
	return t.putInventory(ctx, want, "1.26")
}
