//go:build browser

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// TestThePicturesOfTheDocs makes the pictures of docs/control-api.md from a cloud in use: with GOCYBORG_UPDATE=1 those
// in the docs, otherwise only to see that they can be made.
func TestThePicturesOfTheDocs(t *testing.T) {
	const failed = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	dir, err := filepath.Abs("../../docs/pictures")
	must(t, err)
	if os.Getenv("GOCYBORG_UPDATE") == "" {
		dir = t.TempDir()
	}
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--clouds-yaml", clouds)
	url := served.env["CYSIM_URL"]
	guests := spawnSome(t, url, clouds)
	failBind(t, url+"/accelerator/v2/accelerator_requests", login(t, clouds, "sim").Token(), login(t, clouds, "sim-svc").Token(), failed)
	_, css := get(t, url+"/_sim/page.css", "")
	for name, tt := range map[string]struct{ title, query, size string }{
		"status-page.png": {"", "", "1000,1320"},
		"story.png":       {"Last flows", "?part=flows&flows=" + guests[0], "1000,560"},
		"explain.png":     {"Explain", "?part=explain&flavor=accel.gpu&query=required%3DHW_CPU_X86_AVX2", "1000,560"},
	} {
		file, address := filepath.Join(dir, name), url+"/_sim/"
		if tt.title != "" { // alone, since a screenshot begins at the top
			_, section := get(t, url+"/_sim/"+tt.query, "")
			html := "<!DOCTYPE html><meta charset=utf-8><style>" + css + "</style><h2>" + tt.title + "</h2>" + section
			address = "file://" + writeFile(t, "section.html", html)
		}
		chromium(t, "--window-size="+tt.size, "--screenshot="+file, address)
		if info, err := os.Stat(file); err != nil || info.Size() < 10_000 || info.Size() > 300_000 {
			t.Errorf("picture %s: %v", name, info)
		}
	}
}

// spawnSome makes instances at the same time, and returns their UUIDs.
func spawnSome(t *testing.T, url, clouds string) (instances []string) {
	t.Helper()
	flow, err := spawn.NewFromProvider(login(t, clouds, "sim"), spawn.WithServiceProvider(login(t, clouds, "sim-svc")), spawn.WithEvents(nil))
	must(t, err)
	var group sync.WaitGroup
	for n, profile := range []string{"gpu", "vgpu", "mixed"} {
		id := fmt.Sprintf("%08x-9c4e-4f7a-8d21-5b0e6f1a2c%02d", 0x7d1f3a52+n*0x01b3c5d7, n)
		instances = append(instances, id)
		group.Go(func() {
			result, err := flow.Run(t.Context(), spawn.Request{Instance: id, Flavor: requestspec.Flavor{
				Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
			}})
			if err != nil {
				t.Error(err)
				return
			}
			body, err := json.Marshal(map[string]string{"host": result.Host, "domain": string(result.Domain)})
			if err != nil {
				t.Error(err)
			}
			put(t, "PUT", url+"/_sim/guests/"+id, string(body))
		})
	}
	group.Wait()
	return instances
}
