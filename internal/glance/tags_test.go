package glance_test

import (
	"strings"
	"testing"
)

func TestAnImageWithoutTagsHasAnEmptyListOfThem(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	if text := c.want(201, "admin", "POST", "/image/v2/images", `{"id":"`+imageA+`"}`); !strings.Contains(text, `"tags":[]`) {
		t.Errorf("created: %s", text)
	}
}
