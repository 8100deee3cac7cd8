// Package frameworks records the dead letters that other frameworks write. Each program in
// its folders consumes records of a real Apache Kafka and fails, so its framework writes dead
// letters. The tests compare these with the files in kafka/testdata/corpus, or write the files:
//
//	make test-frameworks
//	go test -tags frameworks ./frameworks -record -run TestSpringKafka
//
// README.md says how a framework is added. The tests have the build tag "frameworks" because
// they download the frameworks and take minutes. They are not parallel: each starts a JVM.
package frameworks
