package config

// Remarks are what a valid configuration does not do. Without a file it is not
// complete, so nothing is said of serving it.
func (c *Config) Remarks(complete bool) []string {
	var list []string
	if err := c.CheckServe(); complete && err != nil {
		list = append(list, "`dragoman serve` would refuse this: "+err.Error())
	}
	return list
}
