package clients

import (
	"os"
	"path/filepath"
)

// Machine is where clients are looked for.
type Machine struct {
	// System is as runtime.GOOS.
	System string
	// Home is the directory of the user, and Work the working directory.
	Home, Work string
	// Environ returns a variable of the environment, or "".
	Environ func(name string) string
}

// Lookup returns a variable of the environment, or "".
func (m *Machine) Lookup(name string) string {
	if m.Environ == nil {
		return ""
	}
	return m.Environ(name)
}

func (m *Machine) home(parts ...string) string {
	return filepath.Join(append([]string{m.Home}, parts...)...)
}

// appData returns a path in the directory where programs with windows keep a user's settings.
func (m *Machine) appData(parts ...string) string {
	base := m.Lookup("XDG_CONFIG_HOME")
	switch {
	case m.System == "darwin":
		base = m.home("Library", "Application Support")
	case m.System == "windows":
		if base = m.Lookup("APPDATA"); base == "" {
			base = m.home("AppData", "Roaming")
		}
	case base == "":
		base = m.home(".config")
	}
	return filepath.Join(append([]string{base}, parts...)...)
}

// Settings returns the directory of a program of the command line for a user's settings.
func (m *Machine) Settings(program string) string {
	return m.config(program, program, "")
}

// config is appData, with ~/.config on macOS, as Zed has it, and another name of the folder on Windows.
func (m *Machine) config(folder, onWindows, file string) string {
	switch m.System {
	case "windows":
		return m.appData(onWindows, file)
	case "darwin":
		return m.home(".config", folder, file)
	}
	return m.appData(folder, file)
}

// Installed is a client on a machine.
type Installed struct {
	*Client
	// Path is its file, which may not exist yet.
	Path string
	// Exists says whether it does.
	Exists bool
}

// Installed returns the clients of a machine: those that have a file, and those whose folder is there.
func (m *Machine) Installed() (all []Installed) {
	for _, c := range Clients {
		if at, ok := m.Of(c); ok {
			all = append(all, at)
		}
	}
	return all
}

// Of returns where a client has its file. ok reports whether the client was found.
func (m *Machine) Of(c *Client) (at Installed, ok bool) {
	files := c.files(m)
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return Installed{c, path, true}, true
		}
	}
	for _, dir := range c.presence(m) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return Installed{c, files[0], false}, true
		}
	}
	return Installed{c, files[0], false}, false
}

// InProject returns where a client has its file in the project of the working directory; false if it has none.
func (m *Machine) InProject(c *Client) (Installed, bool) {
	if c.project == "" {
		return Installed{}, false
	}
	path := filepath.Join(m.Work, filepath.FromSlash(c.project))
	_, err := os.Stat(path)
	return Installed{c, path, err == nil}, true
}
