package journal_test

import (
	"os"
	"testing"

	"github.com/gocyborg/gocyborg/internal/testrun"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		child(path)
		return
	}
	testrun.Main(m)
}
