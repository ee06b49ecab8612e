package choose_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/testrun"
)

func TestMain(m *testing.M) { testrun.Main(m) }
