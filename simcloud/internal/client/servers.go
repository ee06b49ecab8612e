package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gocyborg/gocyborg/internal/uuids"
)

// computeVersion is one at which a Nova also lists the servers of cells that do not answer.
const computeVersion = "compute 2.82"

// pageLimit is how many items are asked for at a time; Nova may answer with fewer.
const pageLimit = 1000

// Server is a server of Nova's.
type Server struct {
	ID string `json:"id"`
	// Host is the compute node, as a resource provider has its name; the service on it may have another. It is empty
	// for a server that is on no host, or in a cell that does not answer.
	Host string `json:"OS-EXT-SRV-ATTR:hypervisor_hostname"`
	// Left are the nodes that the server was evacuated from and that have not been back since: Nova keeps its allocations
	// there until then.
	Left []string `json:"-"`
}

// Servers lists the servers of all projects of the Nova at the endpoint, page by page. The error is for any
// page that is not there.
func (c *Client) Servers(ctx context.Context) ([]Server, error) {
	list, err := pages(ctx, c, "/servers/detail", "servers", url.Values{"all_tenants": {"1"}}, func(s Server) string { return s.ID })
	if err != nil {
		return nil, fmt.Errorf("list the servers of all projects: %w", err)
	}
	left, err := c.evacuations(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the evacuations: %w", err)
	}
	for i := range list {
		list[i].Left = left[uuids.Canonical(list[i].ID)]
	}
	return list, nil
}

// evacuations are the nodes that servers were evacuated from and that have not been back since.
func (c *Client) evacuations(ctx context.Context) (map[string][]string, error) {
	type migration struct {
		UUID     string `json:"uuid"`
		Instance string `json:"instance_uuid"`
		Source   string `json:"source_node"`
	}
	query := url.Values{"migration_type": {"evacuation"}, "status": {"done"}} // completed: the host is back
	list, err := pages(ctx, c, "/os-migrations", "migrations", query, func(m migration) string { return m.UUID })
	if err != nil {
		return nil, err
	}
	left := make(map[string][]string)
	for _, m := range list {
		id := uuids.Canonical(m.Instance)
		left[id] = append(left[id], m.Source)
	}
	return left, nil
}

// pages reads all pages of a Nova list. name is the key of the list in the answer.
func pages[T any](ctx context.Context, c *Client, path, name string, query url.Values, id func(T) string) (list []T, err error) {
	query.Set("limit", fmt.Sprint(pageLimit))
	seen := make(map[string]bool)
	for {
		page, more, err := onePage[T](ctx, c, path+"?"+query.Encode(), name)
		if err != nil {
			return nil, err
		}
		for _, item := range page {
			if id(item) == "" {
				return nil, fmt.Errorf("one of the %s has no id", name)
			}
			if !seen[id(item)] {
				seen[id(item)], list = true, append(list, item)
			}
		}
		if !more || len(page) == 0 {
			return list, nil
		}
		last := id(page[len(page)-1])
		if last == query.Get("marker") {
			return nil, fmt.Errorf("the page after %s ends with it", last)
		}
		query.Set("marker", last)
	}
}

func onePage[T any](ctx context.Context, c *Client, path, name string) (page []T, more bool, err error) {
	answer, err := c.exchange(ctx, http.MethodGet, path, computeVersion, nil)
	if err != nil {
		return nil, false, err
	}
	var body map[string]json.RawMessage
	if err := answer.Decode(&body); err != nil {
		return nil, false, err
	}
	if raw := body[name]; raw == nil || string(raw) == "null" {
		return nil, false, errors.New("the answer is not a list of " + name)
	}
	if err := json.Unmarshal(body[name], &page); err != nil {
		return nil, false, fmt.Errorf("the list of %s: %w", name, err)
	}
	var links []any
	if body[name+"_links"] != nil {
		err = json.Unmarshal(body[name+"_links"], &links)
	}
	return page, len(links) > 0, err
}
