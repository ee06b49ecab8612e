package spawn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// access is a client of Cyborg with what is known of its token, which decides what Cyborg shows and allows. Placement
// judges another one.
type access struct {
	*cyborgclient.Client

	mu          sync.Mutex
	known       cyborgclient.Owner // cached: decoding the token takes a tenth of the time of a spawn
	othersShown time.Time          // Cyborg last showed the token an ARQ of another project
}

// owner returns whose the token is. That stays the same when the token is renewed. It is the zero value of a token
// that the caller has set.
func (c *access) owner() cyborgclient.Owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.ProjectID == "" {
		c.known = c.Owner()
	}
	return c.known
}

// listARQs lists ARQs, and learns from them whether Cyborg hides any. With a service token it may show by instance what it
// does not show in the list of all.
func (c *access) listARQs(ctx context.Context, opts cyborgclient.ListARQsOpts) ([]cyborgclient.ARQ, error) {
	arqs, err := c.ListARQs(ctx, opts)
	c.note(arqs)
	return arqs, err
}

// note records that Cyborg shows the token ARQs of other projects. Before 14.1 it shows all, without a project.
func (c *access) note(arqs []cyborgclient.ARQ) {
	project := c.owner().ProjectID
	if project != "" && slices.ContainsFunc(arqs, func(arq cyborgclient.ARQ) bool { return arq.ProjectID != project }) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.othersShown = time.Now()
	}
}

// showsFor is how long a token is expected to see all projects after Cyborg has shown it an ARQ of another one. Cyborg may
// be upgraded to a release that hides them.
const showsFor = time.Hour

// shows reports whether Cyborg shows the token all ARQs of a project: to an administrator, in the token's own project, and
// where it has recently shown ARQs of other projects. It answers that hidden ARQs do not exist.
func (c *access) shows(project string) bool {
	owner := c.owner()
	c.mu.Lock()
	defer c.mu.Unlock()
	return owner.IsAdmin() || project != "" && project == owner.ProjectID || time.Since(c.othersShown) < showsFor
}
