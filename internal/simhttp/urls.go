package simhttp

import (
	"fmt"
	"net/url"
	"strings"
)

// CheckURL refuses a text that is not an absolute http or https URL, and a URL with a user name or password: URLs are shown in
// logs, answers and states. The error shows neither these nor the query.
func CheckURL(text string) error {
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("%q is not an absolute http or https URL", ShownURL(text))
	case parsed.User != nil:
		return fmt.Errorf("the URL of %s has a user name or password, which would be shown wherever the URL is", parsed.Host)
	}
	return nil
}

// CheckBase is CheckURL for the root of an API, which has neither query nor fragment.
func CheckBase(text string) error {
	if err := CheckURL(text); err != nil {
		return err
	}
	if strings.ContainsAny(text, "?#") {
		return fmt.Errorf("the URL %s has a query or fragment", ShownURL(text))
	}
	return nil
}

// ShownURL is a URL, or what should be one, without what may be secret: user name, password, query and fragment.
func ShownURL(text string) string {
	parsed, err := url.Parse(text)
	if at := strings.LastIndexByte(text, '@'); at >= 0 && (err != nil || parsed.Host == "" || parsed.User != nil) {
		text = mask + text[at:]
	}
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end+1] + mask
	}
	return text
}
