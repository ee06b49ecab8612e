package placementsim

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// cors adds the headers that let a browser page of the configured origin read
// the answer. It reports whether the request is a preflight request, which gets no other
// answer. Without an origin in the configuration it does nothing, so that
// OPTIONS is an unknown method.
func (s *Server) cors(c *simhttp.Call) (done bool) {
	if s.config.CORSOrigin == "" {
		return false
	}
	allowed := c.Header.Get("Origin") == s.config.CORSOrigin
	if allowed {
		c.W.Header().Set("Access-Control-Allow-Origin", s.config.CORSOrigin)
		c.W.Header().Add("Vary", "Origin")
	}
	if c.Method != http.MethodOptions {
		return false
	}
	if method := c.Header.Get("Access-Control-Request-Method"); allowed && method != "" {
		c.W.Header().Set("Access-Control-Allow-Methods", method)
		if headers := c.Header.Get("Access-Control-Request-Headers"); headers != "" {
			c.W.Header().Set("Access-Control-Allow-Headers", headers)
		}
	}
	return true
}
