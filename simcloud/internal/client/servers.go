package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// computeVersion is one at which a Nova also lists the servers of cells that do not answer.
const computeVersion = "compute 2.82"

// serversPage is how many servers are asked for at a time; Nova may answer with fewer.
const serversPage = 1000

// Server is a server of Nova's.
type Server struct {
	ID string `json:"id"`
	// Host is empty for a server that is on no host, or in a cell that does not answer.
	Host string `json:"OS-EXT-SRV-ATTR:host"`
}

// Servers lists the servers of all projects of the Nova at the endpoint, page by page. The error is for any
// page that is not there.
func (c *Client) Servers(ctx context.Context) (list []Server, err error) {
	seen := make(map[string]bool)
	for marker := ""; ; {
		page, more, err := c.servers(ctx, marker)
		if err != nil {
			return nil, fmt.Errorf("list the servers of all projects: %w", err)
		}
		for _, s := range page {
			if s.ID == "" {
				return nil, errors.New("list the servers of all projects: a server has no id")
			}
			if !seen[s.ID] {
				seen[s.ID], list = true, append(list, s)
			}
		}
		if !more || len(page) == 0 {
			return list, nil
		}
		last := page[len(page)-1].ID
		if last == marker {
			return nil, fmt.Errorf("list the servers of all projects: the page after %s ends with it", marker)
		}
		marker = last
	}
}

func (c *Client) servers(ctx context.Context, marker string) (page []Server, more bool, err error) {
	query := url.Values{"all_tenants": {"1"}, "limit": {fmt.Sprint(serversPage)}}
	if marker != "" {
		query.Set("marker", marker)
	}
	answer, err := c.exchange(ctx, http.MethodGet, "/servers/detail?"+query.Encode(), computeVersion, nil)
	if err != nil {
		return nil, false, err
	}
	var body struct {
		Servers *[]Server `json:"servers"`
		Links   []any     `json:"servers_links"`
	}
	if err := answer.Decode(&body); err != nil {
		return nil, false, err
	}
	if body.Servers == nil {
		return nil, false, errors.New("the answer is not a list of servers")
	}
	return *body.Servers, len(body.Links) > 0, nil
}
