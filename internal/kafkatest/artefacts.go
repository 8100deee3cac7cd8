package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Version is the Apache Kafka that the product is built for.
const Version = "3.8.1"

// CacheEnv is the environment variable with the directory for the downloaded jars. The
// default is in the user's cache directory.
const CacheEnv = "DLQ_TEST_CACHE"

// Newest is the newest Apache Kafka that these tests run. Tests use it only for features that
// Version does not have.
const Newest = "4.4.0"

// tools is the dependency with Kafka's command-line tools. ResetOffsets runs one of the tools.
const tools = `
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>` + Version + `</version>
    </dependency>`

// pom is a format for the version of Kafka and further dependencies. slf4j-simple writes the
// server's log, which is shown if the server does not start.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dlqmanager</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>%s</version>
    </dependency>%s
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
`

// missingTools says which program is missing for a real Kafka, or is empty.
func missingTools() string {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not in PATH"
		}
	}
	return ""
}

// jars returns the directory with the jars of this Kafka. Maven downloads them on first use.
func jars(version string) (string, error) {
	root := os.Getenv(CacheEnv)
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		root = filepath.Join(cache, "dlq-manager-test")
	}
	name, further := "kafka-"+version, ""
	if version == Version {
		name, further = "kafka-tools-"+version, tools
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	// Maven fills a temporary directory, which is renamed when it is complete. So an
	// interrupted or a concurrent run does no harm.
	scratch, err := os.MkdirTemp(root, "kafka-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	pomFile := filepath.Join(scratch, "pom.xml")
	if err := os.WriteFile(pomFile, fmt.Appendf(nil, pom, version, further), 0o600); err != nil {
		return "", err
	}
	lib := filepath.Join(scratch, "lib")
	maven := exec.Command("mvn", "-q", "-B", "-f", pomFile, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+lib)
	if output, err := maven.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn could not resolve Kafka %s: %w\n%s", version, err, output)
	}
	if err := os.Rename(lib, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return dir, nil // another process was faster
		}
		return "", err
	}
	return dir, nil
}
