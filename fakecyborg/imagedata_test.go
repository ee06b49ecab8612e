package fakecyborg_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// oneImage is a Glance with the image imageOne: its fields, and the data "bits" with a Content-MD5 or none.
func oneImage(fields, contentMD5 string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v2/images/" + imageOne:
			fmt.Fprintf(w, `{"id": %q, "status": "active"%s}`, imageOne, fields)
		case "/v2/images/" + imageOne + "/file":
			if contentMD5 != "" {
				w.Header().Set("Content-MD5", contentMD5)
			}
			fmt.Fprint(w, "bits")
		default:
			http.NotFound(w, r)
		}
	})
}

// TestImageDataAreCompared with Glance's checksum and size. Data that differ are not written.
func TestImageDataAreCompared(t *testing.T) {
	t.Parallel()
	hash := func(algorithm, value string) string {
		return fmt.Sprintf(`, "os_hash_algo": %q, "os_hash_value": %q`, algorithm, value)
	}
	checksum := func(value string) string { return fmt.Sprintf(`, "checksum": %q`, value) }
	const (
		bitsMD5    = "cc411e6c13670e52124629b8ac83f7d0"
		bitsSHA3   = "c4ae330fe5b2dfcc2ba6051dde376ffb55b5de6dcf01e7e6368a7b84ba9e01a0"
		bitsSHA256 = "e5e59d10f196504b6e08ac7785f84430a61e1558fd6246075a9566edaab2e814"
		wrong      = "00000000000000000000000000000000"
	)
	for name, tt := range map[string]struct {
		fields, contentMD5 string
		want, upstream     string // part of the error; none if the image is written
	}{
		"nothing to compare with": {fields: `, "size": null, "checksum": null, "os_hash_algo": null, "os_hash_value": null`},
		"all agree":               {fields: `, "size": 4` + hash("sha256", bitsSHA256) + checksum(bitsMD5), contentMD5: bitsMD5},
		"the hash decides":        {fields: hash("sha3_256", bitsSHA3) + checksum(wrong), contentMD5: wrong},
		"size":                    {fields: `, "size": 5` + checksum(bitsMD5), want: "4 bytes were received, the image's size is 5"},
		"checksum":                {fields: checksum(wrong), contentMD5: bitsMD5, want: "the md5 ", upstream: "the md5 "},
		"Content-MD5":             {contentMD5: wrong, want: "the md5 ", upstream: "the md5 "},
		"md5":                     {fields: hash("md5", wrong) + checksum(bitsMD5), want: "the md5 ", upstream: "the md5 "},
		"sha512":                  {fields: hash("sha512", wrong) + checksum(bitsMD5), want: "the sha512 ", upstream: "the sha512 "},
		"unknown hash":            {fields: hash("crc", wrong) + checksum(bitsMD5), upstream: "unsupported hash type crc"},
		"unknown hash, checksum":  {fields: hash("crc", wrong) + checksum(wrong), want: "the md5 ", upstream: "unsupported hash type crc"},
	} {
		for _, quirks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, quirks %t", name, quirks), func(t *testing.T) {
				t.Parallel()
				want := tt.want
				if quirks {
					want = tt.upstream
				}
				synctest.Test(t, func(t *testing.T) {
					glance := withGlance(oneImage(tt.fields, tt.contentMD5))
					w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, `"accel:bitstream_id":"`+imageOne+`"`, glance)
					w.want(w.bindF(instanceA, "f"), 202, "")
					if want == "" {
						w.server.CheckBound(t, instanceA, 1)
					} else {
						checkStates(t, w, "BindFailed")
					}
					failure := w.server.ARQs()[0].Failure
					if named := strings.Contains(failure, "image "+imageOne+": GET /images/"+imageOne+"/file: "); named != (want != "") || !strings.Contains(failure, want) {
						t.Errorf("failure %q, want %q", failure, want)
					}
					if written := len(card.images) == 1; written != (want == "") || !written && len(w.functions()) != 1 {
						t.Errorf("images written %q, functions %q", card.images, w.functions())
					}
				})
			})
		}
	}
}
