package cyborgclient

import (
	"fmt"
	"regexp"
)

var (
	uuidForm    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	projectForm = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
	// profileName is Cyborg's own rule, without the trailing newline that
	// Python's $ lets pass.
	profileName = regexp.MustCompile(`\A[a-zA-Z0-9_-]+\z`)
)

// checkUUID accepts hyphenated UUIDs in lower case only. Cyborg accepts others, but compares
// them as text with what it stored, so only this form finds a resource; and
// some invalid UUIDs that it stores make every later list fail.
func checkUUID(what, value string) error {
	if !uuidForm.MatchString(value) {
		return fmt.Errorf("%s %q is not a UUID in lower case with dashes", what, clip(value, 80))
	}
	return nil
}

// checkUUIDs accepts a list of distinct UUIDs.
func checkUUIDs(what string, values []string) error {
	seen := make(map[string]bool, len(values))
	for _, value := range values {
		if err := checkUUID(what, value); err != nil {
			return err
		}
		if seen[value] {
			return fmt.Errorf("%s %s is given twice", what, value)
		}
		seen[value] = true
	}
	return nil
}

func checkProfileNames(names ...string) error {
	for _, name := range names {
		if !profileName.MatchString(name) || len(name) > 255 {
			return fmt.Errorf("device profile name %q does not consist of 1 to 255 letters, digits, - and _", clip(name, 80))
		}
	}
	return nil
}
