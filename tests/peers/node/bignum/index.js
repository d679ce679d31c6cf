// Whole numbers of 64 bits, as prozess and buffermaker use them, on the engine's own.

function Bignum(value) {
  if (!(this instanceof Bignum)) return new Bignum(value);
  this.value = value instanceof Bignum ? value.value : BigInt(value);
}

Bignum.prototype.add = function (other) { return new Bignum(this.value + Bignum(other).value); };
Bignum.prototype.sub = function (other) { return new Bignum(this.value - Bignum(other).value); };
Bignum.prototype.eq = function (other) { return this.value === Bignum(other).value; };
Bignum.prototype.lt = function (other) { return this.value < Bignum(other).value; };
Bignum.prototype.gt = function (other) { return this.value > Bignum(other).value; };
Bignum.prototype.toNumber = function () { return Number(this.value); };
Bignum.prototype.toString = function () { return this.value.toString(); };

Bignum.prototype.toBuffer = function () {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64BE(BigInt.asUintN(64, this.value));
  return buffer;
};

Bignum.fromBuffer = function (buffer) { return new Bignum(BigInt('0x' + (buffer.toString('hex') || '0'))); };

module.exports = Bignum;
