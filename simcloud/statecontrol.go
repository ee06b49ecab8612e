package simcloud

import (
	"errors"
	"io"
	"net/http"
)

// maxState is the longest state that a request may bring, in bytes.
const maxState = 256 << 20

// getState is the whole cloud, as Dump gives it.
func (c *Cloud) getState(w http.ResponseWriter, _ *http.Request) {
	data, err := c.Dump()
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // the caller may be gone
}

// putState makes the cloud what the body says, in place of all that happened in it.
func (c *Cloud) putState(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxState))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err := c.Load(data); err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// statusOf is the status of an answer about a state.
func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrNoState):
		return http.StatusConflict
	case errors.Is(err, ErrState):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
