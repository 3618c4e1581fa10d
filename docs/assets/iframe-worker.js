/* The search runs in a worker, and a browser grants none to pages opened from a folder. There a hidden frame does its
   work; on a server this file changes nothing. */
if (location.protocol === "file:") {
  // The worker looks for this name to know where it is.
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inner = this.frame.contentWindow
      this.inner = inner
      this.listener = event => {
        if (event.source !== inner) return
        this.dispatchEvent(new MessageEvent("message", { data: event.data }))
        if (this.onmessage) this.onmessage({ data: event.data })
      }
      window.addEventListener("message", this.listener)
      inner.document.open()
      inner.document.write(`<html><body><script>
        var postMessage = data => parent.dispatchEvent(new MessageEvent("message", { data, source: window }))
        var importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(resolve => {
          const script = document.createElement("script")
          script.src = url
          script.addEventListener("load", resolve)
          document.body.appendChild(script)
        })), Promise.resolve())
      <\/script><script src="${url}"><\/script></body></html>`)
      inner.document.close()
      // After it was opened: that forgets all listeners.
      this.ready = new Promise(resolve => { inner.addEventListener("load", resolve) })
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      window.removeEventListener("message", this.listener)
      this.frame.remove()
    }
  }
}
