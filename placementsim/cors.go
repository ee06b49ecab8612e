package placementsim

import "net/http"

// cors adds the headers that let a browser page of the configured origin read
// the answer, and answers preflight requests. It reports whether the request is
// done with. Without an origin in the configuration it does nothing, so that
// OPTIONS is an unknown method.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) (done bool) {
	if s.config.CORSOrigin == "" {
		return false
	}
	allowed := r.Header.Get("Origin") == s.config.CORSOrigin
	if allowed {
		w.Header().Set("Access-Control-Allow-Origin", s.config.CORSOrigin)
		w.Header().Add("Vary", "Origin")
	}
	if r.Method != http.MethodOptions {
		return false
	}
	if method := r.Header.Get("Access-Control-Request-Method"); allowed && method != "" {
		w.Header().Set("Access-Control-Allow-Methods", method)
		if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
			w.Header().Set("Access-Control-Allow-Headers", headers)
		}
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return true
}
