#!/usr/bin/env node
// Decodes a block of sealed points, written from docs/format.md only: if this program and the page
// disagree with what otlite writes, the page is wrong. Needs nothing but node.
//
//   node test/format/decode.js FILE          each point as a line of JSON; int64 as text
//   node test/format/decode.js --raw FILE    lines of plain text, doubles by their bits (for tests): what
//                                            the directory says of each chunk, then its points
//   ... -                                    hex on standard input, as from sqlite3's hex(data)
'use strict'
const fs = require('fs')
const zlib = require('zlib')

// ---- bytes ----

class Bytes {
  constructor(b) { this.b = b; this.at = 0 }
  byte() {
    if (this.at >= this.b.length) throw new Error('cut short')
    return this.b[this.at++]
  }
  take(n) {
    if (n > this.b.length - this.at) throw new Error('cut short')
    return this.b.subarray(this.at, (this.at += n))
  }
  varint() {
    let v = 0n, shift = 0n, b
    do { b = this.byte(); v |= BigInt(b & 127) << shift; shift += 7n } while (b & 128)
    return v
  }
  length() { return Number(this.varint()) }
  zigzag() { const u = this.varint(); return u & 1n ? -((u + 1n) >> 1n) : u >> 1n }
  end() { if (this.at !== this.b.length) throw new Error('bytes left over') }
}

const wrap = (v) => BigInt.asIntN(64, v)
const bits = (v) => BigInt.asUintN(64, v)
const both = new DataView(new ArrayBuffer(8))
const doubleOf = (u) => { both.setBigUint64(0, bits(u)); return both.getFloat64(0) }
const bitsOf = (d) => { both.setFloat64(0, d); return both.getBigUint64(0) }

function crc32(...parts) {
  let c = ~0
  for (const part of parts) {
    for (const byte of part) {
      c ^= byte
      for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1
    }
  }
  return ~c >>> 0
}

// ---- columns ----

function runs(r, n) {
  const out = []
  while (out.length < n) {
    const m = Math.min(256, n - out.length), base = r.zigzag(), width = r.byte(), exceptions = r.byte()
    const packed = r.take(Math.ceil(m * width / 8)), run = []
    for (let i = 0; i < m; i++) {
      let v = 0n
      for (let k = 0; k < width; k++) {
        const bit = i * width + k
        if (packed[bit >> 3] >> (bit & 7) & 1) v |= 1n << BigInt(k)
      }
      run.push(v)
    }
    for (let e = 0; e < exceptions; e++) { const i = r.byte(); run[i] += r.varint() << BigInt(width) }
    for (const v of run) out.push(wrap(base + v))
  }
  return out
}

const addUp = (first, differences) => {
  const out = [first]
  for (const d of differences) out.push(wrap(out[out.length - 1] + d))
  return out
}

function ints(b, n) {
  const r = new Bytes(b)
  let out = []
  if (n > 0) {
    const encoding = r.byte()
    if (encoding === 0) out = Array(n).fill(r.zigzag())
    else if (encoding === 1) { const first = r.zigzag(); out = addUp(first, Array(n - 1).fill(r.zigzag())) }
    else if (encoding === 2) out = runs(r, n)
    else if (encoding === 3) { const first = r.zigzag(); out = addUp(first, runs(r, n - 1)) }
    else if (encoding === 4) {
      const first = r.zigzag(), difference = r.zigzag()
      out = addUp(first, addUp(difference, runs(r, n - 2)))
    } else if (encoding === 5) for (let i = 0; i < n; i++) out.push(r.take(8).readBigInt64LE())
    else throw new Error(`no encoding ${encoding} of integers`)
  }
  r.end()
  return out
}

// To the bits of doubles, as unsigned BigInt.
function doubles(b, n) {
  if (n === 0) return []
  const r = new Bytes(b), encoding = r.byte()
  if (encoding === 16) {
    const digits = r.byte(), odd = new Map()
    for (let e = r.length(), place = 0; e > 0; e--) {
      place += r.length()
      odd.set(place, r.take(8).readBigUInt64LE())
    }
    const scaled = ints(r.take(b.length - r.at), n)
    return scaled.map((v, i) => odd.has(i) ? odd.get(i) : bitsOf(Number(v) / 10 ** digits))
  }
  if (encoding === 17) {
    const out = [r.varint()], shift = BigInt(r.byte())
    for (const v of runs(r, n - 1)) out.push(bits(out[out.length - 1] ^ bits(v << shift)))
    r.end()
    return out
  }
  if (encoding === 18) return ints(b.subarray(1), n).map(bits)
  throw new Error(`no encoding ${encoding} of doubles`)
}

function byteStrings(b, n) {
  if (n === 0) return []
  const r = new Bytes(b)
  if (r.byte() !== 32) throw new Error('no encoding of byte strings')
  const distinct = r.length(), index = ints(r.take(r.length()), n)
  const lengths = ints(r.take(r.length()), distinct), deflated = r.byte(), length = r.length()
  let text = r.take(b.length - r.at)
  if (deflated) text = zlib.inflateRawSync(text)
  if (text.length !== length) throw new Error('the text has another length')
  let at = 0
  const strings = lengths.map((l) => text.subarray(at, (at += Number(l))))
  return index.map((i) => strings[Number(i)])
}

// ---- kinds ----

const typed = (type, ...names) => names.map((name) => ({ name, type }))
const I = (...names) => typed('INT', ...names), D = (...names) => typed('DOUBLE', ...names)
const V = (...names) => typed('VALUE', ...names), L = (...names) => typed('INTS', ...names)
const KINDS = [
  { name: 'number', fields: V('value') },
  { name: 'histogram', fields: [...I('count'), ...D('sum', 'min', 'max'), ...I('bounds_id'), ...L('counts')] },
  { name: 'exponential_histogram',
    fields: [...I('count'), ...D('sum', 'min', 'max'), ...I('scale', 'zero_count'), ...D('zero_threshold'),
      ...I('present', 'positive_offset'), ...L('positive'), ...I('negative_offset'), ...L('negative')] },
  { name: 'summary', fields: [...I('count'), ...D('sum'), ...typed('DOUBLES', 'quantiles')] },
  { name: 'exemplar', fields: [...I('exemplar_time'), ...V('value'), ...typed('BYTES', 'trace_id', 'span_id', 'attributes')] },
  { name: 'number_rollup',
    fields: [...I('first_time', 'last_time', 'count'), ...D('sum', 'min', 'max'), ...V('first', 'last'),
      ...D('increase'), ...I('first_start', 'n')] },
  { name: 'histogram_rollup',
    fields: [...I('first_time', 'last_time', 'n', 'first_start', 'bounds_id', 'count'), ...D('sum', 'min', 'max'),
      ...L('counts', 'first_counts', 'increase')] }
]
const STREAMS = { INT: 1, DOUBLE: 2, VALUE: 3, INTS: 3, DOUBLES: 2, BYTES: 1 }

// Values here: { int }, { double: bits }, null, a Buffer, or a list of them.
const asInt = (int) => ({ int }), asDouble = (double) => ({ double })

function valueField(stream, type, n) {
  const kinds = stream(0, ints, n).map(Number)
  const of = (kind) => kinds.filter((k) => k === kind).length
  const d = stream(1, doubles, of(2)), i = type === 'VALUE' ? stream(2, ints, of(1)) : []
  return kinds.map((k) => k === 0 ? null : k === 1 ? asInt(i.shift()) : asDouble(d.shift()))
}

function listField(stream, type, n) {
  const lengths = stream(0, ints, n).map(Number), total = lengths.reduce((a, b) => a + b, 0)
  const length = lengths[0], first = type === 'INTS' && stream.is(2) ? stream(2, ints, length) : null
  const wrapped = type === 'INTS' ? asInt : asDouble
  const values = stream(1, type === 'INTS' ? ints : doubles, first ? total - length : total)
  if (lengths.some((l) => l !== length)) {
    let at = 0
    return lengths.map((l) => values.slice(at, (at += l)).map(wrapped))
  }
  const rows = first ? n - 1 : n, lists = first ? [first] : []
  for (let i = 0; i < rows; i++) {
    const before = lists[lists.length - 1]
    lists.push(Array.from({ length }, (_, k) => {
      const v = values[k * rows + i]
      return first ? wrap(before[k] + v) : v
    }))
  }
  return lists.map((list) => list.map(wrapped))
}

function field(stream, type, n) {
  if (type === 'INT') return stream(0, ints, n).map(asInt)
  if (type === 'BYTES') return stream(0, byteStrings, n)
  return type === 'INTS' || type === 'DOUBLES' ? listField(stream, type, n) : valueField(stream, type, n)
}

// What a rollup row of numbers leaves out, since it follows from its first and last value.
function completeRollup(row) {
  if (row.count.int <= 0n || row.first === null || row.last === null) return
  const number = (v) => 'int' in v ? Number(v.int) : doubleOf(v.double)
  const a = number(row.first), b = number(row.last)
  let growth = b - a
  if ('int' in row.first && 'int' in row.last && wrap(row.last.int - row.first.int) === row.last.int - row.first.int)
    growth = Number(row.last.int - row.first.int)
  const complete = (name, d) => { if (row[name] === null && !Number.isNaN(d)) row[name] = asDouble(bitsOf(d)) }
  complete('min', b < a ? b : a)
  complete('max', b > a ? b : a)
  complete('increase', growth)
}

// ---- blocks ----

function readDirectory(b, kind, nChunks) {
  const r = new Bytes(b), nFrames = r.length(), isNumber = kind.name === 'number'
  const column = (n, decode = ints) => decode(r.take(r.length()), n)
  const perFrame = (...names) => names.map((name) => [name, column(nFrames)])
  const frames = Object.fromEntries(perFrame('n', 'min_time', 'span', 'time', 'start_time', 'flags',
    ...(isNumber ? ['kinds', 'n_with_value', 'first_kind', 'last_kind', 'first_after', 'last_before',
      'first_value_start'] : [])))
  const series = column(nChunks), frame = column(nChunks).map(Number)
  const count = kind.fields.reduce((sum, f) => sum + STREAMS[f.type], 3)
  const shared = isNumber ? ['time', 'start_time', 'flags', 'kinds'] : ['time', 'start_time', 'flags']
  const rest = Array.from({ length: count - shared.length }, () => column(nChunks))
  const chunks = series.map((id, i) => ({
    series: id,
    n: Number(frames.n[frame[i]]),
    min_time: frames.min_time[frame[i]],
    max_time: wrap(frames.min_time[frame[i]] + frames.span[frame[i]]),
    streams: [...shared.map((name) => frames[name][frame[i]]), ...rest.map((c) => c[i])].map(Number)
  }))
  if (isNumber) {
    const nan = column(nChunks), form = column(nChunks).map(Number)
    const of = (f) => form.filter((x) => x === f).length
    const six = (f, decode) => Array.from({ length: 6 }, () => column(of(f), decode))
    const whole = six(1, ints), other = six(2, doubles)
    chunks.forEach((c, i) => {
      const f = frame[i], values = frames.n_with_value[f]
      Object.assign(c, { n_values: values - nan[i], n_nan: nan[i], first_kind: frames.first_kind[f],
        last_kind: frames.last_kind[f], first_value_time: 0n, last_value_time: 0n,
        first_value_start: frames.first_value_start[f],
        first: 0n, last: 0n, min: 0n, max: 0n, increase: 0n, sum: 0n }) // the last four: bits
      if (form[i] === 0) return
      c.first_value_time = wrap(c.min_time + frames.first_after[f])
      c.last_value_time = wrap(c.max_time - frames.last_before[f])
      const [v0, v1, v2, v3, v4, v5] = (form[i] === 1 ? whole : other).map((col) => col.shift())
      if (form[i] === 1) {
        const exact = (v) => bitsOf(Number(v))
        Object.assign(c, { first: v0, last: v0 + v1, min: exact(v0 - v2), max: exact(v0 + v1 + v3),
          increase: exact(v1 + v4), sum: exact(v5) })
      } else {
        Object.assign(c, { first: wrap(v0), last: wrap(v1), min: v2, max: v3, increase: v4, sum: v5 })
      }
    })
  }
  r.end()
  return chunks
}

// { kind, chunks }: each chunk has what the directory says of it and points, which have series, time,
// start_time, flags (BigInt) and the fields of the kind.
function decodeBlock(block) {
  if (block.subarray(0, 4).toString('latin1') !== 'otlb') throw new Error('no block')
  if (block[4] !== 1) throw new Error(`format ${block[4]}`)
  const kind = KINDS[block[5]], streamsAt = 20 + block.readUInt32LE(8)
  if (block.readUInt32LE(12) !== block.length) throw new Error('the block has another length')
  const directory = block.subarray(20, streamsAt)
  if (crc32(block.subarray(0, 16), directory) !== block.readUInt32LE(16)) throw new Error('checksum of the directory')
  const chunks = readDirectory(directory, kind, block.readUInt16LE(6))
  for (const chunk of chunks) {
    const streamFrom = (base) => {
      const stream = (s, decode, n) => {
        const place = chunk.streams[base + s]
        if (place === 0) return decode(Buffer.alloc(0), n)
        const r = new Bytes(block)
        r.at = streamsAt + place - 1
        const length = r.length(), sum = r.take(4).readUInt32LE(), b = r.take(length)
        if (crc32(b) !== sum) throw new Error(`checksum of stream ${base + s}`)
        return decode(b, n)
      }
      stream.is = (s) => chunk.streams[base + s] !== 0
      return stream
    }
    const common = streamFrom(0), columns = {}
    const [time, start, flags] = [0, 1, 2].map((s) => common(s, ints, chunk.n))
    let at = 3
    for (const f of kind.fields) {
      columns[f.name] = field(streamFrom(at), f.type, chunk.n)
      at += STREAMS[f.type]
    }
    chunk.points = time.map((t, i) => ({
      series: chunk.series, time: t, start_time: start[i], flags: flags[i],
      ...Object.fromEntries(kind.fields.map((f) => [f.name, columns[f.name][i]]))
    }))
    if (kind.name === 'number_rollup') chunk.points.forEach(completeRollup)
  }
  return { kind: kind.name, chunks }
}

// ---- printing ----

const raw = (v) => v === null ? '-' : Buffer.isBuffer(v) ? `x${v.toString('hex')}`
  : Array.isArray(v) ? `[${v.map(raw).join(',')}]`
    : typeof v === 'bigint' ? String(v)
      : 'int' in v ? `i${v.int}` : `d${v.double.toString(16).padStart(16, '0')}`

const SUMMARY = ['series', 'n', 'min_time', 'max_time', 'n_values', 'n_nan', 'first_kind', 'first', 'last_kind', 'last',
  'first_value_time', 'last_value_time', 'first_value_start', 'min', 'max', 'increase', 'sum']
const summaryLine = (chunk) => SUMMARY.filter((name) => name in chunk).map((name) => chunk[name]).join(' ')

function json(v) {
  if (v === null) return null
  if (typeof v === 'bigint') return String(v)
  if (Buffer.isBuffer(v)) return v.toString('hex')
  if (Array.isArray(v)) return v.map(json)
  if ('int' in v) return String(v.int)
  const d = doubleOf(v.double)
  return Number.isFinite(d) ? d : String(d)
}

function main(args) {
  const isRaw = args[0] === '--raw', file = args[isRaw ? 1 : 0]
  if (file === undefined) { console.error('usage: decode.js [--raw] FILE | -'); process.exit(64) }
  const block = file === '-' ? Buffer.from(fs.readFileSync(0, 'latin1').trim(), 'hex') : fs.readFileSync(file)
  for (const chunk of decodeBlock(block).chunks) {
    if (isRaw) console.log(`chunk ${summaryLine(chunk)}`)
    for (const point of chunk.points) {
      console.log(isRaw ? Object.values(point).map(raw).join(' ')
        : JSON.stringify(Object.fromEntries(Object.entries(point).map(([k, v]) => [k, json(v)]))))
    }
  }
}

module.exports = { decodeBlock, doubleOf }
if (require.main === module) main(process.argv.slice(2))
