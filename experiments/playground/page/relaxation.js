// A relaxation as it is watched: one state, and what was measured at every step until it.

const SETTLED = 1e-6; // largest change of a unit in the last step
const PATIENCE = 400; // steps after which it is said that the network does not settle

const FREE = { beta: 0, target: 0, norm: null, weightBits: null, noise: 0, stateBits: null };

class Relaxation {
  constructor(network, x, knobs = FREE, seed = 1) {
    this.trained = network;
    this.x = x;
    this.seed = seed;
    this.knobs = knobs;
    this.network = changed(network, knobs);
    this.restart();
  }

  restart() {
    this.drive = clampedDrive(this.network, this.x);
    this.state = activate(this.network, this.drive);
    this.free = null;
    this.gaussian = gaussians(this.seed);
    this.residual = Infinity;
    this.history = [];
    this.begin();
  }

  // Turn knobs while it runs: the state stays, what pulls at it changes.
  turn(knobs) {
    const nudged = (one) => one.beta !== 0;
    if (nudged(knobs) && !nudged(this.knobs)) this.free = this.state.slice();
    if (!nudged(knobs)) this.free = null;
    this.knobs = knobs;
    this.network = changed(this.trained, knobs);
    this.drive = clampedDrive(this.network, this.x);
    this.residual = Infinity;
    this.begin();
  }

  // Note where it stands before a step: at the start, and when a knob has changed the energy.
  begin() {
    this.turned = this.steps;
    this.note(null);
  }

  get steps() {
    return this.history.filter((moment) => moment.residual !== null).length;
  }

  get target() {
    const y = new Float64Array(this.network.readout.classes);
    y[this.knobs.target] = 1;
    return y;
  }

  get settled() {
    return this.residual <= SETTLED;
  }

  get done() {
    return this.settled || this.steps - this.turned >= PATIENCE;
  }

  step() {
    const next = mapped(this.network, this.drive, this.state, this.knobs.beta, this.target);
    const reached = spoiled(this.network, next, this.knobs, this.gaussian);
    this.residual = distance(reached, this.state);
    this.state = reached;
    this.note(this.residual);
  }

  note(residual) {
    const { network, drive, state, knobs } = this;
    const energy = totalEnergy(network, drive, state, knobs.beta, this.target);
    this.history.push({ energy, residual });
  }

  answer() {
    return outputs(this.network, this.state);
  }
}
