package fakecyborg_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// selfLink is what a client of openstacksdk, which Nova 34 is, uses in place of a URL of the catalog: the self link of the version
// document that it reads there, without a token.
func (w *world) selfLink(catalog string) string {
	w.t.Helper()
	r := w.send(sent{method: "GET", path: catalog, token: "none", plain: true})
	w.want(r, 200, "")
	links, _ := r.object(w.t)["links"].([]any)
	for _, link := range links {
		link, _ := link.(map[string]any)
		if href, _ := link["href"].(string); link["rel"] == "self" {
			self, err := url.Parse(href)
			if err != nil || !self.IsAbs() {
				w.t.Fatalf("self link %q of %s: %v", href, catalog, err)
			}
			return self.Path
		}
	}
	w.t.Fatalf("%s has no self link: %s", catalog, r.text)
	return ""
}

// Nova 34 reads the URL of the catalog before its first call, and makes each call below the self link of what it gets, also where the
// catalog names a Cyborg without the path /accelerator. Earlier releases make their calls below the URL of the catalog. No release sends
// a version.
func TestNovaCallsCyborgBelowTheSelfLink(t *testing.T) {
	t.Parallel()
	for _, release := range fakecyborg.Releases() {
		for _, catalog := range []string{"/v2", "/v2/", "/accelerator/v2", "/accelerator/v2/"} {
			for _, nova := range []int{33, 34} {
				t.Run(fmt.Sprintf("%s%s/Nova %d", release, catalog, nova), func(t *testing.T) {
					t.Parallel()
					w := fakeWorld(t, fakecyborg.Config{Release: release})
					w.fakeProfile("dp", 1)
					base := catalog
					if nova == 34 {
						base = w.selfLink(catalog)
						if again := w.selfLink(base); again != base {
							t.Errorf("the self link %s has the self link %s", base, again)
						}
					}
					base = strings.TrimSuffix(base, "/")
					call := func(method, path, body string, status int) reply {
						t.Helper()
						r := w.send(sent{method: method, path: base + path, body: body})
						w.want(r, status, "")
						return r
					}
					if list := call("GET", "/device_profiles?name=dp", "", 200).list(t, "device_profiles"); len(list) != 1 {
						t.Errorf("device profiles %v", list)
					}
					arqs := call("POST", "/accelerator_requests", `{"device_profile_name":"dp"}`, 201).list(t, "arqs")
					call("PATCH", "/accelerator_requests", binding(instanceA, fakeProvider(), arqs[0]["uuid"].(string)), 202)
					bound := call("GET", "/accelerator_requests?instance="+instanceA, "", 200).list(t, "arqs")
					if len(bound) != 1 || bound[0]["state"] != "Bound" {
						t.Errorf("requests of the instance: %v", bound)
					}
					call("DELETE", "/accelerator_requests?instance="+instanceA, "", 204)
				})
			}
		}
	}
}
