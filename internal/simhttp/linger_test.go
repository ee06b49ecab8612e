package simhttp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/testrun"
)

// Clients such as curl and Go's read an answer while they send; others, such as Python's, when they have sent
// everything. To close the connection before that would take the answer from them.
func TestABodyThatIsTooLongIsRefusedReadably(t *testing.T) {
	t.Parallel()
	served := 0
	mux := http.NewServeMux()
	mux.Handle("/things", strictService(&served))
	mux.Handle("/recorded/", http.StripPrefix("/recorded", Recording(strictService(&served), NewRecorder(1))))
	mux.Handle("/_sim/", Control{Faults: fault.NewSet()}.Handler())
	server := httptest.NewServer(mux)
	defer server.Close()
	megabyte := strings.Repeat("x", 1<<20)
	for i, target := range []string{"POST /things", "POST /recorded/things", "PUT /_sim/faults"} {
		for _, chunked := range []bool{false, true} {
			for _, sent := range []int{MaxBody>>20 + 1, 64} { // in MiB; the first of 64
				if sent == 64 && i >= testrun.Of(3, 1) { // which takes half a second
					continue
				}
				conn, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				length := "Content-Length: " + fmt.Sprint(64<<20)
				if chunked {
					length = "Transfer-Encoding: chunked"
				}
				_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", target, length)
				for i := 0; i < sent && err == nil; i++ {
					if chunked {
						_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(megabyte), megabyte)
					} else {
						_, err = io.WriteString(conn, megabyte)
					}
				}
				if err != nil {
					t.Errorf("%s, chunked %v, %d MiB: send: %v", target, chunked, sent, err)
				}
				if status, text := readAnswer(conn); status != http.StatusRequestEntityTooLarge || !strings.Contains(text, ErrBodyTooLarge.Error()) {
					t.Errorf("%s, chunked %v, %d MiB: answered %d %s", target, chunked, sent, status, text)
				}
				conn.Close()
			}
		}
	}
}

func readAnswer(conn net.Conn) (status int, text string) {
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}

// An answer that the client has not asked to wait for is not held back either.
func TestABodyThatIsAnnouncedAsTooLongIsNotAskedFor(t *testing.T) {
	t.Parallel()
	served := 0
	server := httptest.NewServer(Recording(strictService(&served), NewRecorder(1)))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", MaxBody+1); err != nil {
		t.Fatal(err)
	}
	if status, text := readAnswer(conn); status != http.StatusRequestEntityTooLarge {
		t.Errorf("answered %d %s, want 413 at once", status, text)
	}
}
