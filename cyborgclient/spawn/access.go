package spawn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// access is a client of Cyborg and what is known about its token, which decides what Cyborg shows and allows. The
// client of Placement has a token of its own.
type access struct {
	*cyborgclient.Client

	mu          sync.Mutex
	known       cyborgclient.Owner // cached: decoding the token takes a tenth of the time of a spawn
	othersShown time.Time          // Cyborg last showed the token an ARQ of another project
}

// owner returns the project and the user of the token, which a renewal does not change. It is the zero value for a
// token that the caller has set.
func (c *access) owner() cyborgclient.Owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.ProjectID == "" {
		c.known = c.Owner()
	}
	return c.known
}

// listARQs lists ARQs and notes whether they include other projects. With a service token Cyborg may show ARQs in the
// list of one instance that it does not show in the list of all.
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

// showsFor is how long a token is expected to see all projects after Cyborg has shown it an ARQ of another project.
// Cyborg may be upgraded to a release that hides them.
const showsFor = time.Hour

// shows reports whether Cyborg shows the token all ARQs of a project: to an administrator, in the token's own
// project, and if it has recently shown ARQs of other projects. Cyborg answers 404 for an ARQ that it hides.
func (c *access) shows(project string) bool {
	owner := c.owner()
	c.mu.Lock()
	defer c.mu.Unlock()
	return owner.IsAdmin() || project != "" && project == owner.ProjectID || time.Since(c.othersShown) < showsFor
}
