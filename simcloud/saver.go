package simcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
)

// saver keeps a file up with a cloud. Requests that end at the same time share one write.
type saver struct {
	cloud *Cloud
	file  *stateFile

	mu      sync.Mutex
	turned  *sync.Cond
	begun   int // how many saves have begun, done how many have ended
	done    int
	running bool
	closed  bool
	pending bool              // a kick waits for its turn
	touched map[string]bool   // families of parts that may have changed since the last save began
	err     error             // of the last save
	saved   map[string][]byte // what the file holds; of the one who saves
	kicked  sync.WaitGroup
}

func newSaver(c *Cloud, f *stateFile) *saver {
	s := &saver{cloud: c, file: f, saved: make(map[string][]byte), touched: make(map[string]bool)}
	s.turned = sync.NewCond(&s.mu)
	s.touch(allParts)
	return s
}

// touch marks parts that may have changed.
func (s *saver) touch(parts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parts {
		s.touched[p] = true
	}
}

// sync returns when everything that was touched is on the disk. A save that began before
// does not count.
func (s *saver) sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.begun + 1
	for s.done < wanted {
		if s.running {
			s.turned.Wait()
			continue
		}
		if s.closed {
			return errors.New("simcloud: the state file is closed")
		}
		touched := s.touched
		s.running, s.touched = true, make(map[string]bool)
		s.begun++
		s.mu.Unlock()
		err := s.save(touched)
		s.mu.Lock()
		if err != nil {
			maps.Copy(s.touched, touched)
		}
		s.running, s.done, s.err = false, s.begun, err
		s.turned.Broadcast()
	}
	return s.err
}

// save writes the parts of those touched that differ from what the file holds. One save
// runs at a time.
func (s *saver) save(touched map[string]bool) error {
	changed := make(map[string][]byte)
	for _, p := range s.cloud.parts() {
		if !touched[allParts] && !touched[p.family()] {
			continue
		}
		data, err := p.dump()
		if err != nil {
			return fmt.Errorf("simcloud: dump %s: %w", p.name, err)
		}
		if !bytes.Equal(data, s.saved[p.name]) {
			changed[p.name] = data
		}
	}
	if err := s.file.write(changed); err != nil {
		return err
	}
	maps.Copy(s.saved, changed)
	return nil
}

// kick saves what happened without anybody waiting for an answer. Kicks before a save has
// begun are one.
func (s *saver) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.pending {
		return
	}
	s.pending = true
	s.kicked.Go(func() {
		s.mu.Lock()
		s.pending = false
		s.mu.Unlock()
		_ = s.sync() // the next one that is waited for tells
	})
}

// close saves a last time.
func (s *saver) close() error {
	s.touch(allParts)
	err := s.sync()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.kicked.Wait()
	return errors.Join(err, s.file.close())
}

// before answers no request that may have changed something until the change is on the
// disk. A change that cannot be kept is answered 500.
func (s *saver) before(next http.Handler, w http.ResponseWriter, r *http.Request) {
	out := &savedFirst{ResponseWriter: w, saver: s, touches: touchedBy(r.URL.Path)}
	defer s.touch(out.touches...) // by what it does after its answer
	next.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), waitedForKey{}, true)))
	out.WriteHeader(http.StatusOK) // of a handler that wrote nothing
}

// waitedForKey marks a request whose sender waits for the save, and all that it causes.
type waitedForKey struct{}

// behind is for the requests that the cloud's services send each other: whoever waits for
// the first of them waits for the save, but some have begun by themselves.
func (s *saver) behind(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if r.Context().Value(waitedForKey{}) == nil {
		defer s.kick()
	}
	defer s.touch(append(touchedBy(r.URL.Path), touchedBy("/accelerator")...)...) // which sent it
	next.ServeHTTP(w, r)
}

func harmless(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// savedFirst saves before the first byte of an answer.
type savedFirst struct {
	http.ResponseWriter
	saver   *saver
	touches []string
	began   bool
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (w *savedFirst) WriteHeader(status int) {
	if w.began {
		return
	}
	w.began = true
	w.saver.touch(w.touches...)
	if err := w.saver.sync(); err != nil {
		w.refused = true
		w.Header().Del("Content-Length")
		http.Error(w.ResponseWriter, "it happened, but could not be kept: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *savedFirst) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *savedFirst) Unwrap() http.ResponseWriter { return w.ResponseWriter }
