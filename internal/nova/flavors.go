package nova

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Flavor is a public flavor. It is immutable.
type Flavor struct {
	Name        string
	VCPUs       int
	MemoryMB    int // MiB
	RootGB      int // GiB
	EphemeralGB int // GiB
	SwapMB      int // MiB
	ExtraSpecs  map[string]string
}

// flavor is a flavor with its id.
type flavor struct {
	Flavor
	id string
}

// The microversions that changed what is shown of a flavor.
const (
	minorFlavorDescription = 55
	minorFlavorExtraSpecs  = 61
	minorSwapNumber        = 75 // and refuses unknown query keys
)

// maxFlavors is the longest page, Nova's [api] max_limit.
const maxFlavors = 1000

// flavorQuery are the query keys of the lists.
var flavorQuery = []string{"limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir"}

// flavorSortKeys are the columns by which a list can be sorted.
var flavorSortKeys = []string{
	"created_at", "description", "disabled", "ephemeral_gb", "flavorid", "id", "is_public", "memory_mb", "name", "root_gb", "rxtx_factor",
	"swap", "updated_at", "vcpu_weight", "vcpus",
}

// The forms of a limit and of a bound.
var (
	flavorLimit = regexp.MustCompile(`^[0-9]*$`)
	flavorBound = regexp.MustCompile(`^-?[0-9]+$`)
)

// newFlavors gives flavors their ids, which depend on their names alone.
func newFlavors(seed uint64, list []Flavor) []flavor {
	flavors := make([]flavor, 0, len(list))
	for _, f := range list {
		flavors = append(flavors, flavor{f, simhttp.NewIDs(seed, "flavor "+f.Name).UUID()})
	}
	return flavors
}

func (s *Server) flavorRoutes() []simhttp.Route {
	route := func(operation sim.OperationName, path string, handler simhttp.Handler, query ...string) simhttp.Route {
		return simhttp.Route{Operation: operation, Method: http.MethodGet, Pattern: "/v2.1/flavors" + path, Handler: handler, Input: simhttp.Input{Query: query}}
	}
	return []simhttp.Route{
		route(fault.FlavorList, "", s.listFlavors(flavor.brief), flavorQuery...),
		route(fault.FlavorDetails, "/detail", s.listFlavors(flavor.detail), flavorQuery...),
		route(fault.FlavorGet, "/{id}", s.getFlavor),
		route(fault.FlavorExtraSpecs, "/{id}/os-extra_specs", s.getExtraSpecs),
		route(fault.FlavorExtraSpecGet, "/{id}/os-extra_specs/{key}", s.getExtraSpec),
	}
}

// links are where a flavor stands.
func (f flavor) links(c *simhttp.Call) []map[string]string {
	base := c.BaseURL() + c.Mount
	return []map[string]string{
		{"rel": "self", "href": base + "/v2.1/flavors/" + f.id}, {"rel": "bookmark", "href": base + "/flavors/" + f.id},
	}
}

// brief is a flavor in a list.
func (f flavor) brief(c *simhttp.Call) map[string]any {
	body := map[string]any{"id": f.id, "name": f.Name, "links": f.links(c)}
	if c.Minor >= minorFlavorDescription {
		body["description"] = nil
	}
	return body
}

// detail is all of a flavor.
func (f flavor) detail(c *simhttp.Call) map[string]any {
	body := f.brief(c)
	maps.Copy(body, map[string]any{
		"ram": f.MemoryMB, "disk": f.RootGB, "vcpus": f.VCPUs, "swap": f.SwapMB, "OS-FLV-EXT-DATA:ephemeral": f.EphemeralGB,
		"OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true, "rxtx_factor": 1.0,
	})
	if f.SwapMB == 0 && c.Minor < minorSwapNumber {
		body["swap"] = ""
	}
	if c.Minor >= minorFlavorExtraSpecs {
		body["extra_specs"] = f.extraSpecs()
	}
	return body
}

// extraSpecs are not null in JSON.
func (f flavor) extraSpecs() map[string]string {
	if f.ExtraSpecs == nil {
		return map[string]string{}
	}
	return f.ExtraSpecs
}

// listFlavors is GET /flavors and GET /flavors/detail.
func (s *Server) listFlavors(show func(flavor, *simhttp.Call) map[string]any) simhttp.Handler {
	return func(c *simhttp.Call) error {
		query := c.URL.Query()
		if err := checkFlavorQuery(query, c.Minor); err != nil {
			return err
		}
		found, err := s.findFlavors(query, c.Identity.HasRole("admin"))
		if err != nil {
			return err
		}
		limit := maxFlavors
		if n, err := strconv.Atoi(last(query, "limit")); err == nil && n < limit {
			limit = n
		}
		list := []map[string]any{}
		for _, f := range found[:min(limit, len(found))] {
			list = append(list, show(f, c))
		}
		body := map[string]any{"flavors": list}
		if limit > 0 && len(list) == limit {
			maps.DeleteFunc(query, func(key string, _ []string) bool { return !slices.Contains(flavorQuery, key) })
			query.Set("marker", found[limit-1].id)
			body["flavors_links"] = []map[string]string{{"rel": "next", "href": c.BaseURL() + c.URL.Path + "?" + query.Encode()}}
		}
		return c.JSON(http.StatusOK, body)
	}
}

// last is the value of a query key that Nova reads.
func last(query url.Values, key string) string {
	values := query[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// checkFlavorQuery refuses what Nova's schema refuses.
func checkFlavorQuery(query url.Values, minor int) error {
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if minor >= minorSwapNumber && !slices.Contains(flavorQuery, key) {
			return simhttp.Refuse(http.StatusBadRequest, "Additional properties are not allowed ('%s' was unexpected)", key)
		}
		for _, value := range query[key] {
			phrase := ""
			switch {
			case key == "limit" && !flavorLimit.MatchString(value):
				phrase = fmt.Sprintf("'%s' does not match '^[0-9]*$'", value)
			case key == "sort_key" && !slices.Contains(flavorSortKeys, value):
				phrase = fmt.Sprintf("'%s' is not one of ['%s']", value, strings.Join(flavorSortKeys, "', '"))
			case key == "sort_dir" && value != "asc" && value != "desc":
				phrase = fmt.Sprintf("'%s' is not one of ['asc', 'desc']", value)
			default:
				continue
			}
			return simhttp.Refuse(http.StatusBadRequest, "Invalid input for query parameters %s. Value: %s. %s", key, value, phrase)
		}
	}
	return nil
}

// findFlavors lists the flavors that a query asks for, sorted, from its marker on.
func (s *Server) findFlavors(query url.Values, admin bool) (list []flavor, err error) {
	bounds := map[string]int{}
	for _, key := range []string{"minRam", "minDisk"} {
		if text := last(query, key); query.Has(key) {
			if !flavorBound.MatchString(text) {
				return nil, simhttp.Refuse(http.StatusBadRequest, "Invalid %s filter [%s]", key, text)
			}
			bounds[key], _ = strconv.Atoi(text)
		}
	}
	public, err := isPublic(last(query, "is_public"))
	switch {
	case !admin: // others see public flavors, which all are
	case err != nil:
		return nil, err
	case !public:
		return nil, nil
	}
	for _, f := range s.flavors {
		if f.MemoryMB >= bounds["minRam"] && f.RootGB >= bounds["minDisk"] {
			list = append(list, f)
		}
	}
	key := cmp.Or(last(query, "sort_key"), "flavorid")
	slices.SortStableFunc(list, func(a, b flavor) int {
		if last(query, "sort_dir") == "desc" {
			a, b = b, a
		}
		return compareFlavors(key, a, b)
	})
	if marker := last(query, "marker"); marker != "" {
		i := slices.IndexFunc(list, func(f flavor) bool { return f.id == marker })
		if i < 0 {
			return nil, simhttp.Refuse(http.StatusBadRequest, "marker [%s] not found", marker)
		}
		list = list[i+1:]
	}
	return list, nil
}

// isPublic reads the filter of that name, as oslo's strutils do; none asks for all.
func isPublic(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "", "none", "1", "t", "true", "on", "y", "yes":
		return true, nil
	case "0", "f", "false", "off", "n", "no":
		return false, nil
	}
	return false, simhttp.Refuse(http.StatusBadRequest, "Invalid is_public filter [%s]", text)
}

// compareFlavors compares by a column; those in which all are equal keep the order of the model.
func compareFlavors(key string, a, b flavor) int {
	switch key {
	case "flavorid":
		return cmp.Compare(a.id, b.id)
	case "name":
		return cmp.Compare(a.Name, b.Name)
	case "vcpus":
		return cmp.Compare(a.VCPUs, b.VCPUs)
	case "memory_mb":
		return cmp.Compare(a.MemoryMB, b.MemoryMB)
	case "root_gb":
		return cmp.Compare(a.RootGB, b.RootGB)
	case "ephemeral_gb":
		return cmp.Compare(a.EphemeralGB, b.EphemeralGB)
	case "swap":
		return cmp.Compare(a.SwapMB, b.SwapMB)
	}
	return 0
}

// flavorOf is the flavor of the path.
func (s *Server) flavorOf(c *simhttp.Call) (flavor, error) {
	id := c.PathValue("id")
	i := slices.IndexFunc(s.flavors, func(f flavor) bool { return f.id == id })
	if i < 0 {
		return flavor{}, simhttp.Refuse(http.StatusNotFound, "Flavor %s could not be found.", id)
	}
	return s.flavors[i], nil
}

func (s *Server) getFlavor(c *simhttp.Call) error {
	f, err := s.flavorOf(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"flavor": f.detail(c)})
}

func (s *Server) getExtraSpecs(c *simhttp.Call) error {
	f, err := s.flavorOf(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"extra_specs": f.extraSpecs()})
}

func (s *Server) getExtraSpec(c *simhttp.Call) error {
	f, err := s.flavorOf(c)
	if err != nil {
		return err
	}
	key := c.PathValue("key")
	value, ok := f.ExtraSpecs[key]
	if !ok {
		return simhttp.Refuse(http.StatusNotFound, "Flavor %s has no extra specs with key %s.", f.id, key)
	}
	return c.JSON(http.StatusOK, map[string]string{key: value})
}
