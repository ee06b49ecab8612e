package cyborgclient

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds adds every recorded answer whose name starts with prefix.
func seeds(f *testing.F, prefix string) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "answers", prefix+"*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds %s*: %v", prefix, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// FuzzErrorBody checks that decoding any error body ends with bounded, valid text, and that the
// error contains the status.
func FuzzErrorBody(f *testing.F) {
	seeds(f, "error_")
	for _, body := range []string{
		"", "null", `"`, `{"error_message": null}`, `{"error_message": "{\"error_message\": \"{}\"}"}`, "<html><body>x",
		"<html><script>a</script><!-- <b> --><p>x &amp; y</p>", `{"errors": [null]}`, `{"error": "text"}`, "\xff\xfe",
		strings.Repeat(`{"error":`, 50), strings.Repeat("\x0e", 900), `{"error_message": "` + strings.Repeat("é", 9000) + `"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		decoded := decodeFault(body)
		if len(decoded.detail) > detailLimit+3 || len(decoded.title) > 203 {
			t.Errorf("title of %d and detail of %d bytes", len(decoded.title), len(decoded.detail))
		}
		if !utf8.ValidString(decoded.detail) || !utf8.ValidString(decoded.title) {
			t.Errorf("not text: %+q", decoded)
		}
		apiErr := &APIError{Op: "accelerator.arq.get", Status: http.StatusConflict, Title: decoded.title, Detail: decoded.detail}
		if text := apiErr.Error(); !strings.Contains(text, "409") || len(text) > 1000 {
			t.Errorf("error text %q", text)
		}
	})
}

// FuzzARQs: what is accepted as a list of ARQs has UUIDs and reads the same
// after it was written again.
func FuzzARQs(f *testing.F) {
	seeds(f, "arq_")
	for _, body := range []string{
		`{"arqs": []}`, `{"arqs": [null]}`, `{"arqs": [{"uuid": "u", "device_profile_group_id": "7", "updated_at": "None"}]}`,
		`{"arqs": [{"uuid": "u", "attach_handle_info": {"bus": 59, "deep": [{}]}}]}`,
		`{"arqs": [{"uuid": "u", "created_at": "2026-11-20 21:18:33+00:00"}], "ARQS": 1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		first, err := decodeARQs(body)
		if err != nil {
			return
		}
		again, err := json.Marshal(map[string]any{"arqs": first})
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		second, err := decodeARQs(again)
		if err != nil {
			t.Fatalf("decode %s: %v", again, err)
		}
		third, err := json.Marshal(map[string]any{"arqs": second})
		if err != nil || string(again) != string(third) {
			t.Errorf("changed by a round trip: %v\n%s\n%s", err, again, third)
		}
		for _, arq := range first {
			if arq.UUID == "" || arq.DeviceProfileGroupID < noGroup {
				t.Errorf("accepted %+v", arq)
			}
		}
	})
}
