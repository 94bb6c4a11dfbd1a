package tuning

import (
	"testing"

	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Run(m) }
