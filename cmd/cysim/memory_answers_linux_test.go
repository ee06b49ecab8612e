//go:build linux && memory

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// widen gives a server a tree of 70 providers with one inventory each: what three groups find there is too much.
func widen(t *testing.T, url, token string) {
	t.Helper()
	const root = "aaaaaaaa-0000-4000-8000-000000000000"
	send := func(method, path, body string, want int) {
		answer, err := direct.Do(newRequest(t, method, url+"/placement"+path, strings.NewReader(body),
			"Content-Type", "application/json", "X-Auth-Token", token, "OpenStack-API-Version", "placement 1.39"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, _ := io.ReadAll(answer.Body); answer.StatusCode != want {
			t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
		}
	}
	send("POST", "/resource_providers", `{"name":"wide","uuid":"`+root+`"}`, http.StatusOK)
	for i := range 70 {
		child := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i+1)
		send("POST", "/resource_providers", fmt.Sprintf(`{"name":"child %d","uuid":"%s","parent_provider_uuid":"%s"}`, i, child, root), http.StatusOK)
		send("PUT", "/resource_providers/"+child+"/inventories", `{"resource_provider_generation":0,"inventories":{"SRIOV_NET_VF":{"total":100}}}`, http.StatusOK)
	}
}

// neverRead sends a request and reads nothing of its answer.
func neverRead(t *testing.T, url, token, path string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: %s\r\nOpenStack-API-Version: placement 1.39, accelerator 2.3\r\n\r\n", path, token)
}

// threeGroups searches the tree of widen.
const threeGroups = "/placement/allocation_candidates?group_policy=none&resources1=SRIOV_NET_VF:1&resources2=SRIOV_NET_VF:1&resources3=SRIOV_NET_VF:1&limit="

// fiveGroups asks why no host has so many processors.
const fiveGroups = "/_sim/explain?group_policy=none&resources1=VCPU:999&resources2=VCPU:999&resources3=VCPU:999&resources4=VCPU:999&resources5=VCPU:999"

// Long answers are made for few clients at once, and only few slow readers keep their answers in memory.
func TestTheMemoryOfAnswersHasACeiling(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		size       int64 // MiB
		hosts      int
		readers    bool // the others never read
	}{
		{"searches that are too large", threeGroups + "340000", 1024, 2, true},
		{"large searches", threeGroups + "80000", 1024, 2, true},
		{"large searches of slow readers", threeGroups + "80000", 1024, 2, false},
		{"searches of slow readers", threeGroups + "5000", 256, 2, false},
		{"long lists", "/placement/resource_providers", 1024, 10_000, true},
		{"long lists of slow readers", "/placement/resource_providers", 1024, 10_000, false},
		{"long explanations", fiveGroups, 1024, 10_000, true},
		{"long explanations of slow readers", fiveGroups, 1024, 10_000, false},
		{"lists of devices of slow readers", "/accelerator/v2/deployables", 1024, 8000, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var hosts strings.Builder
			for i := range tt.hosts {
				fmt.Fprintf(&hosts, `,{"name":"h%d"}`, i)
			}
			file := filepath.Join(t.TempDir(), "model.json")
			if err := os.WriteFile(file, []byte(`{"hosts":[`+hosts.String()[1:]+`]}`), 0o600); err != nil {
				t.Fatal(err)
			}
			served := startProcess(t, "serve", "--max-memory", fmt.Sprint(tt.size, "MiB"), "--model", file)
			token := userToken(t, served.url)
			widen(t, served.url, token)
			begin, before := time.Now(), peak(served.command.Process.Pid)
			if !tt.readers {
				for range 40 {
					neverRead(t, served.url, token, tt.path)
				}
			}
			get40 := func(path string) map[int]int {
				return crowd(t, 40, 1, func(_, _ int) *http.Request {
					return newRequest(t, "GET", served.url+path, http.NoBody, "X-Auth-Token", token, "OpenStack-API-Version", "placement 1.39, accelerator 2.3")
				})
			}
			statuses := get40(tt.path)
			most := peak(served.command.Process.Pid)
			t.Logf("%d MiB at most, %d before, answers by status: %v, %v", most>>20, before>>20, statuses, time.Since(begin).Round(time.Second))
			if most > tt.size<<20+base {
				t.Errorf("the process took %d MiB, want at most %d", most>>20, tt.size+base>>20)
			}
			if statuses := get40("/placement/traits?name=in:HW_CPU_X86_AVX"); statuses[http.StatusOK] != 40 {
				t.Errorf("a short list: %v", statuses)
			}
		})
	}
}

// Clients that read the state and the guests slowly, which have images and domains of many MiB in them.
func TestTheMemoryOfLongControlAnswersHasACeiling(t *testing.T) {
	const size = 128 << 20
	for _, path := range []string{"/_sim/state", "/_sim/guests"} {
		t.Run(path[1:], func(t *testing.T) {
			served := startProcess(t, "serve", "--max-memory", fmt.Sprint(size))
			token := userToken(t, served.url)
			crowd(t, 4, 1, func(int, int) *http.Request {
				return newRequest(t, "PUT", fmt.Sprintf("%s/image/v2/images/%s/file", served.url, imageOf(t, served.url, token)), strings.NewReader(strings.Repeat("a", 10<<20)),
					"Content-Type", "application/octet-stream", "X-Auth-Token", token)
			})
			crowd(t, 4, 2, func(client, n int) *http.Request {
				return newRequest(t, "PUT", fmt.Sprintf("%s/_sim/guests/aaaaaaaa-0000-4000-8000-%06d%06d", served.url, client, n),
					strings.NewReader(`{"host":"cn0","domain":"<domain><name>`+strings.Repeat("a", 2<<20)+`</name></domain>"}`))
			})
			for range 20 {
				neverRead(t, served.url, token, path)
			}
			statuses := crowd(t, 10, 1, func(int, int) *http.Request { return newRequest(t, "GET", served.url+path, http.NoBody) })
			most := peak(served.command.Process.Pid)
			t.Logf("%d MiB at most, answers by status: %v", most>>20, statuses)
			if most > size+base {
				t.Errorf("the process took %d MiB, want at most %d", most>>20, (size+base)>>20)
			}
			if status, text := get(t, served.url+"/_sim/health", ""); status != http.StatusOK {
				t.Errorf("at the same time: %d %s", status, text)
			}
		})
	}
}
