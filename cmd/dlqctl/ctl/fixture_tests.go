package ctl

// fixtureTests are the tests that load a fixture, by language. They need the standard library, and JUnit for Java.
var fixtureTests = map[string]file{
	"go": {"fixture_test.go", []byte(`package fixture

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"
)

type header struct {
	Key    string  ` + "`json:\"key\"`" + `
	Value  *string ` + "`json:\"value\"`" + `
	Base64 []byte  ` + "`json:\"value_base64\"`" + `
}

func (h header) bytes() []byte {
	if h.Value != nil {
		return []byte(*h.Value)
	}
	return h.Base64
}

// read is nil for a file that does not exist: Kafka's null.
func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheConsumerTakesTheDeadLetter(t *testing.T) {
	key, value := read(t, "key"), read(t, "value")
	var headers []header
	if err := json.Unmarshal(read(t, "headers.json"), &headers); err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		t.Logf("%s: %q", h.Key, h.bytes())
	}
	// Call your consumer here, with key, value and headers.
	t.Logf("key %q, value %q", key, value)
}
`)},
	"java": {"FixtureTest.java", []byte(`import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class FixtureTest {
    // The folder of this fixture, from where the tests run.
    static final Path FOLDER = Path.of(System.getProperty("fixture", "."));

    /** Null for a file that does not exist: Kafka's null. */
    static byte[] read(String name) throws Exception {
        Path file = FOLDER.resolve(name);
        return Files.exists(file) ? Files.readAllBytes(file) : null;
    }

    @Test
    void theConsumerTakesTheDeadLetter() throws Exception {
        byte[] key = read("key");
        byte[] value = read("value");
        String headers = Files.readString(FOLDER.resolve("headers.json"));
        // Call your consumer here, with key, value and headers.
        System.out.printf("key %d bytes, value %d bytes, headers %s%n", key == null ? -1 : key.length, value == null ? -1 : value.length, headers);
    }
}
`)},
}
