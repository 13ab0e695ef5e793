package firn_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The program of README.md runs.
func TestReadme(t *testing.T) {
	page := must(os.ReadFile("README.md"))(t)
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllSubmatch(page, -1)
	equal(t, len(blocks), 1)
	// In the module, so that the import is found, and in a folder that patterns leave out.
	check(t, os.MkdirAll("testdata", 0o755))
	folder := must(os.MkdirTemp("testdata", "readme"))(t)
	defer os.Remove("testdata")
	defer os.RemoveAll(folder)
	check(t, os.WriteFile(filepath.Join(folder, "main.go"), blocks[0][1], 0o644))
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", program, "./"+folder)
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	run := exec.Command(program)
	run.Dir = t.TempDir()
	printed, err := run.CombinedOutput()
	check(t, err)
	equal(t, string(printed), "red\napple red\npear green\ndelete plum\nBlackbird 7\n")
}
