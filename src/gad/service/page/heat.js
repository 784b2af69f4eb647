// The mathematics of one layer, on one molecule: h = Φ r_t(Λ) Φᵀ M x, then B_av h and |B_dx h|.

function numbers(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

export const response = {
  implicit: (value, t) => 1 / (1 + t * value),
  spectral: (value, t) => Math.exp(-t * value),
};

export class Operators {
  constructor(geometry) {
    this.values = numbers(geometry.eigenvalues);
    this.vectors = numbers(geometry.eigenvectors);
    this.mass = numbers(geometry.mass);
    this.weight = numbers(geometry.weight);
    this.field = numbers(geometry.field);
    this.source = geometry.source;
    this.target = geometry.target;
    this.directions = geometry.directions;
    this.count = this.mass.length;
  }

  // Temperatures after the time t, where one atom had 1 and the others 0.
  heat(atom, t, scheme) {
    const { values, vectors, mass, count } = this;
    const K = values.length;
    const h = new Float64Array(count);
    if (t === 0) { h[atom] = 1; return h; }
    for (let k = 0; k < K; k++) {
      const share = response[scheme](values[k], t) * vectors[atom * K + k] * mass[atom];
      if (share !== 0) for (let i = 0; i < count; i++) h[i] += vectors[i * K + k] * share;
    }
    return h;
  }

  // (B_av h)_i = Σ_j ‖F̂_ij‖ h_j
  average(h) {
    const out = new Float64Array(this.count);
    this.source.forEach((j, e) => { out[this.target[e]] += this.weight[e] * h[j]; });
    return out;
  }

  // |B_dx h|_i = ‖Σ_j F̂_ij (h_j − h_i)‖ over the directions
  derivative(h) {
    const m = this.directions;
    const sums = new Float64Array(this.count * m);
    this.source.forEach((j, e) => {
      const i = this.target[e];
      for (let d = 0; d < m; d++) sums[i * m + d] += this.field[e * m + d] * (h[j] - h[i]);
    });
    return Float64Array.from({ length: this.count }, (_, i) =>
      Math.hypot(...sums.subarray(i * m, i * m + m)));
  }
}

// The slider's place is √-like in time: 0 at its left end, 100 at its right.
export const timeOf = (place) => (place === 0 ? 0 : 10 ** (place / 100 - 2));
export const placeOf = (t) => (t <= 0 ? 0 : Math.min(400, Math.max(0, 100 * (Math.log10(t) + 2))));
