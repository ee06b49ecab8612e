//go:build linux && memory

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// These tests let a process of cysim run into its ceiling, and watch the most memory that it ever had resident. The race
// detector would take several times that.

// base is the memory of a process without requests: the program and the cloud.
const base = 96 << 20

// peak is the peak memory of a process in bytes, or 0 if it has ended.
func peak(pid int) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, text, _ := strings.Cut(string(data), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	kib, _ := strconv.ParseInt(number, 10, 64)
	return kib << 10
}

// crowd sends requests from many clients at once, and counts the answers by their status; 0 for none.
func crowd(t *testing.T, clients, each int, request func(client, n int) *http.Request) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := make(map[int]int)
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			for n := range each {
				status := 0
				if answer, err := transport.RoundTrip(request(client, n)); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					status = answer.StatusCode
				}
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return statuses
}

func newRequest(t *testing.T, method, url string, body io.Reader, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// userToken logs in.
func userToken(t *testing.T, base string) string {
	t.Helper()
	answer, err := direct.Do(newRequest(t, "POST", base+"/v3/auth/tokens", strings.NewReader(credentials), "Content-Type", "application/json"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.Header.Get("X-Subject-Token")
}

func TestTheMemoryOfAServerHasACeiling(t *testing.T) {
	const ceiling = 256 << 20
	empty := listOf("[]", 3<<19) // about the longest that is not refused
	for _, tt := range []struct {
		name          string
		clients, each int
		request       func(url, token string, client, n int) *http.Request
	}{
		{"User-Agents", 8, 500, func(url, _ string, _, n int) *http.Request {
			return newRequest(t, "GET", url+"/v3", nil, "User-Agent", strconv.Itoa(n)+strings.Repeat("a", 60<<10))
		}},
		{"bodies without a token", 12, 1, func(url, _ string, _, _ int) *http.Request {
			return newRequest(t, "POST", url+"/v3/auth/tokens", strings.NewReader(empty), "Content-Type", "application/json")
		}},
		{"bodies for Placement", 12, 1, func(url, token string, _, _ int) *http.Request {
			return newRequest(t, "POST", url+"/placement/allocations", strings.NewReader(empty), "Content-Type", "application/json", "X-Auth-Token", token,
				"OpenStack-API-Version", "placement 1.39")
		}},
		{"bodies for Nova", 12, 1, func(url, token string, _, _ int) *http.Request {
			return newRequest(t, "POST", url+"/compute/v2.1/os-server-external-events", strings.NewReader(empty), "Content-Type", "application/json", "X-Auth-Token", token)
		}},
		{"fault rules", 12, 1, func(url, _ string, _, _ int) *http.Request {
			return newRequest(t, "PUT", url+"/_sim/faults", strings.NewReader(listOf("{}", 384<<10)))
		}},
		{"bodies of unknown length", 12, 1, func(url, _ string, _, _ int) *http.Request {
			return newRequest(t, "POST", url+"/v3/auth/tokens", struct{ io.Reader }{strings.NewReader(empty)}, "Content-Type", "application/json")
		}},
		{"tokens", 8, 1500, func(url, _ string, _, _ int) *http.Request {
			return newRequest(t, "POST", url+"/v3/auth/tokens", strings.NewReader(credentials), "Content-Type", "application/json")
		}},
		{"guests", 8, 25, func(url, _ string, client, n int) *http.Request {
			guest := fmt.Sprintf(`{"host":"cn0","domain":"<domain><name>%s</name></domain>"}`, strings.Repeat("a", 2<<20))
			return newRequest(t, "PUT", fmt.Sprintf("%s/_sim/guests/aaaaaaaa-0000-4000-8000-%06d%06d", url, client, n), strings.NewReader(guest))
		}},
		{"an endless state", 2, 1, func(url, _ string, _, _ int) *http.Request {
			_, state := get(t, url+"/_sim/state", "")
			header, _, _ := strings.Cut(state, "\n")
			row := `{"table":"compute.guests","key":"1","row":{"uuid":"` + strings.Repeat("a", 1000) + "\"}}\n"
			return newRequest(t, "PUT", url+"/_sim/state", io.MultiReader(strings.NewReader(header+"\n"), endless(row)))
		}},
		{"late requests", 8, 1000, func(url, token string, _, n int) *http.Request {
			if n == 0 {
				return newRequest(t, "PUT", url+"/_sim/faults", strings.NewReader(`[{"operation":"accelerator.arq.delete","action":"late","delay":"1h","times":-1}]`))
			}
			return newRequest(t, "DELETE", url+"/accelerator/v2/accelerator_requests?instance=x", nil, "X-Auth-Token", token, "X-Long", strconv.Itoa(n)+strings.Repeat("a", 60<<10))
		}},
		{"images", 4, 4, func(url, token string, client, n int) *http.Request {
			return newRequest(t, "PUT", fmt.Sprintf("%s/image/v2/images/%s/file", url, imageOf(t, url, token)), bytes.NewReader(bytes.Repeat([]byte(fmt.Sprintf("%d/%4d ", client, n)), 8<<20)),
				"Content-Type", "application/octet-stream", "X-Auth-Token", token)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			served := startProcess(t, "serve", "--max-memory", "256MiB")
			token := userToken(t, served.url)
			statuses := crowd(t, tt.clients, tt.each, func(client, n int) *http.Request { return tt.request(served.url, token, client, n) })
			most := peak(served.command.Process.Pid)
			t.Logf("%d MiB at most, answers by status: %v", most>>20, statuses)
			if most > ceiling+base {
				t.Errorf("the process took %d MiB, want at most %d", most>>20, (ceiling+base)>>20)
			}
			if status, text := get(t, served.url+"/_sim/health", ""); status != http.StatusOK {
				t.Errorf("afterwards: %d %s", status, text)
			}
			if status, text := get(t, served.url+"/_sim/requests?limit=1", ""); status != http.StatusOK || !json.Valid([]byte(text)) {
				t.Errorf("the record: %d %.200s", status, text)
			}
		})
	}
}

// listOf is a list of equal elements in JSON, with about so many bytes.
func listOf(element string, length int) string {
	return "[" + strings.Repeat(element+",", length/(len(element)+1)-1) + element + "]"
}

// The parts of a body may take many times its length.
func TestTheMemoryOfABodyHasACeiling(t *testing.T) {
	const ceiling = 64 << 20
	for name, one := range map[string]string{
		"nested objects": strings.Repeat(`{"":`, 2000) + "0" + strings.Repeat("}", 2000), "objects": `{"":[]}`, "empty lists": "[]", "numbers": "0",
	} {
		for _, length := range []int{4<<20 - 20, 1 << 20, 200 << 10} {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%t", name, length, chunked), func(t *testing.T) {
					served := startProcess(t, "serve", "--max-memory", "64MiB")
					text := `{"auth":` + listOf(one, length) + "}"
					statuses := crowd(t, 2, 2, func(int, int) *http.Request {
						var body io.Reader = strings.NewReader(text)
						if chunked {
							body = struct{ io.Reader }{body}
						}
						return newRequest(t, "POST", served.url+"/identity/v3/auth/tokens", body, "Content-Type", "application/json")
					})
					most := peak(served.command.Process.Pid)
					t.Logf("%d MiB at most, answers by status: %v", most>>20, statuses)
					if most > ceiling+40<<20 {
						t.Errorf("the process took %d MiB, want at most %d", most>>20, (ceiling+40<<20)>>20)
					}
				})
			}
		}
	}
}

const credentials = `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}},` +
	`"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}}`

// imageOf creates an image without data.
func imageOf(t *testing.T, url, token string) string {
	t.Helper()
	answer, err := direct.Do(newRequest(t, "POST", url+"/image/v2/images", strings.NewReader(`{"disk_format":"raw","container_format":"bare"}`),
		"Content-Type", "application/json", "X-Auth-Token", token))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer answer.Body.Close()
	var image struct{ ID string }
	_ = json.NewDecoder(answer.Body).Decode(&image)
	return image.ID
}

// repeated is an endless text.
type repeated struct {
	text string
	at   int
}

func endless(text string) io.Reader { return &repeated{text: text} }

// Read implements io.Reader.
func (r *repeated) Read(p []byte) (n int, _ error) {
	for n < len(p) {
		copied := copy(p[n:], r.text[r.at:])
		n += copied
		r.at = (r.at + copied) % len(r.text)
	}
	return n, nil
}

func TestTheMemoryOfConnectionsHasACeiling(t *testing.T) {
	t.Parallel()
	served := startProcess(t, "serve", "--max-memory", "256MiB")
	before := peak(served.command.Process.Pid)
	address := strings.TrimPrefix(served.url, "http://")
	for range 1000 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // those that wait are not read
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("a", 60<<10))
	}
	if grown := peak(served.command.Process.Pid) - before; grown > 256<<20/16*2 {
		t.Errorf("connections took %d MiB", grown>>20)
	}
}

func TestALargeModelNeedsMoreMemory(t *testing.T) {
	t.Parallel()
	var hosts strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&hosts, `,{"name":"h%d"}`, i)
	}
	for name, text := range map[string]string{
		"200,000 hosts":   `{"hosts":[` + hosts.String()[1:] + `]}`,
		"20 million":      `{"hosts":[` + strings.Repeat("{},", 20<<20) + `{}]}`,
		"a million names": `{"hosts":[{"name":"h","traits":[` + strings.Repeat(`"",`, 8<<20) + `""]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "model.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			stderr, most := runProcess(t, 2, "serve", "--max-memory", "256MiB", "--model", file)
			if most > 256<<20+base {
				t.Errorf("the process took %d MiB", most>>20)
			}
			if len(stderr) > 20_000 {
				t.Errorf("the error has %d bytes: %.500s", len(stderr), stderr)
			}
			t.Logf("%d MiB: %.300s", most>>20, stderr)
		})
	}
}

// runProcess runs cysim to its end, and returns its errors and the most memory it had.
func runProcess(t *testing.T, want int, args ...string) (stderr string, most int64) {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asCommand+"=1")
	var errs bytes.Buffer
	command.Stderr = &errs
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- command.Wait() }() // the status says it all
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(10 * time.Millisecond):
			most = max(most, peak(command.Process.Pid))
		}
	}
	if got := command.ProcessState.ExitCode(); got != want {
		t.Errorf("cysim %s: got status %d, want %d; %.1000s", strings.Join(args, " "), got, want, &errs)
	}
	return errs.String(), most
}

// A cloud that answers without end, or with what takes many times its length, ends an import and not the machine.
func TestTheMemoryOfAnImportHasACeiling(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		answer     func(w http.ResponseWriter)
	}{
		{"an endless body", "the answer is too large: more than 16 MiB, a sixteenth of --max-memory 256MiB; raise --max-memory", func(w http.ResponseWriter) {
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`{"a":"`), endless(strings.Repeat("a", 1000))))
		}},
		{"a gzip bomb", "the answer is too large: more than 16 MiB, a sixteenth of --max-memory 256MiB; raise --max-memory", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			_, _ = io.Copy(packed, io.LimitReader(endless(strings.Repeat(" ", 1<<20)), 4<<30))
		}},
		{"nothing, many times", "resource provider 0: it has no uuid", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"resource_providers":[`+strings.Repeat("{},", 5<<20)+`{}]}`)
		}},
		{"many parts", "memory is used up", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"resource_providers":[`)
			for i := range 150_000 {
				fmt.Fprintf(w, `{"uuid":"%036d","parent_provider_uuid":null,"name":"%d"},`, i, i)
			}
			_, _ = io.WriteString(w, `{"uuid":"x","parent_provider_uuid":null}]}`)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/auth/tokens"):
					w.Header().Set("X-Subject-Token", "token")
					w.WriteHeader(http.StatusCreated)
					fmt.Fprintf(w, `{"token":{"catalog":[{"type":"placement","endpoints":[{"interface":"public","region":"R","region_id":"R","url":"%s/placement"}]}]}}`, server.URL)
				case strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/placement"):
					_, _ = io.WriteString(w, `{"versions":[{"id":"v1.0","max_version":"1.39","min_version":"1.0","status":"CURRENT","links":[{"rel":"self","href":""}]}]}`)
				case strings.HasSuffix(r.URL.Path, "/placement/resource_providers"):
					tt.answer(w)
				case strings.Contains(r.URL.Path, "/resource_providers/"):
					fmt.Fprintf(w, `{"resource_provider_generation":1,"traits":["%s"],"aggregates":[],"inventories":{},"allocations":{}}`, strings.Repeat("a", 50<<10))
				default:
					_, _ = io.WriteString(w, `{"resource_classes":[],"traits":[]}`)
				}
			}))
			defer server.CloseClientConnections()
			file := filepath.Join(t.TempDir(), "clouds.yaml")
			clouds, err := cloudsYAML(server.URL, "R", "", func(user string) string { return user })
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, clouds, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("OS_CLIENT_CONFIG_FILE", file)
			stderr, most := runProcess(t, 1, "import", "--cloud", "sim", "--max-memory", "256MiB", "--to", file+".state")
			t.Logf("%d MiB: %.300s", most>>20, stderr)
			if most > 256<<20+base || !strings.Contains(stderr, tt.want) {
				t.Errorf("the process took %d MiB: %.1000s; want %s", most>>20, stderr, tt.want)
			}
		})
	}
}
