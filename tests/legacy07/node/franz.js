// node franz.js HOST PORT TOPIC COUNT COMPRESSION: writes messages in batches and reads all of them back.
// Prints the payloads as a JSON array.

const Kafka = require('franz-kafka');

const [host, port, topic, count, compression] = process.argv.slice(2);
const total = Number(count);
const kafka = new Kafka({
  brokers: [{ id: 0, host, port: Number(port) }],
  compression,
  queueTime: 10,
  batchSize: 7,
  minFetchDelay: 1,
  maxFetchDelay: 20,
});

kafka.connect(() => {
  const stream = kafka.topic(topic, { partitions: { consume: ['0-0:0'], produce: ['0:1'] } });
  const found = [];
  stream.setEncoding('utf8');
  stream.on('error', (error) => {
    console.error(error);
    process.exit(1);
  });
  stream.on('data', (data) => {
    found.push(data);
    if (found.length === total) {
      console.log(JSON.stringify(found));
      process.exit(0);
    }
  });
  for (let number = 0; number < total; number++) stream.write(`message ${number}`); // it queues whatever it says
  stream.resume();
});
