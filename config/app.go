package config

import (
	"slices"
	"strings"
)

// App identifies this program and its environment.
type App struct {
	Name    string `yaml:"name" default:"dlq-manager" check:"required"`
	Version string `yaml:"version"`
	// Environment is any name. If it is "production" or "prod", the sections database, kafka and temporal are required.
	Environment string `yaml:"environment" default:"dev" check:"required"`
	// Tier is a label of the platform. It changes nothing in the programs.
	Tier string `yaml:"tier"`
}

// Production reports whether this is the production environment.
func (a App) Production() bool {
	return slices.Contains([]string{"production", "prod"}, strings.ToLower(strings.TrimSpace(a.Environment)))
}
