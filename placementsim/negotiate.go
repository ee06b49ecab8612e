package placementsim

import (
	"net/http"
	"strconv"
	"strings"
)

// acceptQuality tells how much an Accept header likes a media type, from 0,
// not at all, to 1. The most specific entry counts.
func acceptQuality(header, mainType, subType string) float64 {
	quality, best := 0.0, -1
	for entry := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(entry, ";")
		specificity := matchRange(strings.ToLower(strings.TrimSpace(name)), mainType, subType)
		if specificity > best {
			best, quality = specificity, qualityOf(params)
		}
	}
	return quality
}

// matchRange compares a media range with a type: -1 no match, higher is more
// specific.
func matchRange(name, mainType, subType string) int {
	switch name {
	case mainType + "/" + subType:
		return 2
	case mainType + "/*":
		return 1
	case "*/*":
		return 0
	}
	return -1
}

func qualityOf(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(key), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}

// errorType is the media type of an error's answer.
func errorType(r *http.Request) string {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return "application/json"
	}
	asHTML := acceptQuality(accept, "text", "html")
	asJSON := acceptQuality(accept, "application", "json")
	switch {
	case asHTML > 0 && asHTML >= asJSON:
		return "text/html"
	case asJSON > 0:
		return "application/json"
	}
	return "text/plain"
}
