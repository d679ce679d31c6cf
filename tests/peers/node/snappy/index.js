// Raw blocks of snappy, as franz-kafka asks for them, by an implementation that need not be compiled.

const { compress, uncompress } = require('snappyjs');

function answering(work) {
  return (data, done) => {
    let found;
    try {
      found = Buffer.from(work(data));
    } catch (error) {
      return process.nextTick(done, error);
    }
    process.nextTick(done, null, found);
  };
}

module.exports = { compress: answering(compress), uncompress: answering(uncompress) };
