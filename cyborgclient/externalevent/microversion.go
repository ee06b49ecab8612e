package externalevent

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	versionHeader = "OpenStack-API-Version"
	legacyHeader  = "X-OpenStack-Nova-API-Version"
)

// nameSince has the minor compute API version that introduced an event name, as in
// nova/api/openstack/compute/schemas/server_external_events.py.
var nameSince = map[string]int{
	"network-changed": 1, "network-vif-plugged": 1, "network-vif-unplugged": 1, "network-vif-deleted": 1,
	"volume-extended": 51, "power-update": 76, ARQBound: 82, "volume-reimaged": 93,
}

// needsTag reports whether Nova refuses an event of this name without a tag.
func needsTag(name string) bool {
	return slices.Contains([]string{ARQBound, ARQResolved, ARQsBound, "volume-extended", "power-update"}, name)
}

// requestedVersion returns the minor microversion of a request. It reads the entry for compute in
// the common header, which may list several services, then Nova's older header, and defaults to
// 1.
func requestedVersion(h http.Header) (int, *fault) {
	text := commonVersion(h.Values(versionHeader))
	if text == "" {
		text = strings.TrimSpace(h.Get(legacyHeader))
	}
	switch text {
	case "":
		return 1, nil
	case "latest":
		return math.MaxInt, nil
	}
	majorText, minorText, _ := strings.Cut(text, ".")
	major, ok1 := digits(majorText)
	minor, ok2 := digits(minorText)
	switch {
	case !ok1 || !ok2:
		return 0, &fault{http.StatusBadRequest,
			fmt.Sprintf("API Version String %.40q is of invalid format. Must be of format MajorNum.MinorNum.", text)}
	case major != 2 || minor < 1:
		return 0, &fault{http.StatusNotAcceptable, fmt.Sprintf("Version %s is not supported by the API. Minimum is 2.1.", text)}
	}
	return minor, nil
}

// commonVersion returns the last value for compute, as the microversion_parse library
// does.
func commonVersion(values []string) string {
	version := ""
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if f := strings.Fields(part); len(f) == 2 && strings.EqualFold(f[0], "compute") {
			version = f[1]
		}
	}
	return version
}

func digits(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && (text == "0" || text[0] != '0')
}
