/* Search when the site is opened from a folder (file://), where browsers refuse to start a Worker:
   the search script runs in a hidden frame instead and exchanges the same messages.
   Material looks for the name IFrameWorker; over http nothing here does anything. */
"use strict";

class IFrameWorker extends EventTarget {
  constructor(address) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.title = "Search";
    document.body.append(frame);
    this.frame = frame;
    this.scope = frame.contentWindow;
    this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.loaded = new Promise((resolve, reject) => {
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(address, location.href);
      script.onload = resolve;
      script.onerror = () => reject(new Error(`cannot load ${script.src}`));
      frame.contentDocument.head.append(script);
    });
  }

  async postMessage(data) {
    await this.loaded;
    this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data }));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
